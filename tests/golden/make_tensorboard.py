"""Writes tensorboard.bin: an event file made by TensorBoard's own protocol buffers and record writer.

    python tests/golden/make_tensorboard.py        (tensorboard 2.21)

Records: the version, a scalar at step 0, a scalar at a large step, a text as torch's SummaryWriter.add_text writes it.
"""
import io
import pathlib

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.summary.writer.record_writer import RecordWriter

TIME = 1767322245.678901

text = Summary.Value(
    tag="lr/text_summary",
    metadata=SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text")),
    tensor=TensorProto(dtype="DT_STRING", string_val=["0.00015 and 'ünïcode'".encode()],
                       tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])))
events = [
    Event(wall_time=TIME, file_version="brain.Event:2"),
    Event(wall_time=TIME, step=0, summary=Summary(value=[Summary.Value(tag="lm loss", simple_value=10.825)])),
    Event(wall_time=TIME + 1, step=300_000_000_000,
          summary=Summary(value=[Summary.Value(tag="lm loss vs samples", simple_value=1.5e-7)])),
    Event(wall_time=TIME + 2, step=7, summary=Summary(value=[text])),
]
out = io.BytesIO()
writer = RecordWriter(out)
for event in events:
    writer.write(event.SerializeToString(deterministic=True))
(pathlib.Path(__file__).parent / "tensorboard.bin").write_bytes(out.getvalue())

"""Writes events/WRITER/*: small TensorBoard event files of other people's writers, and events/expected.txt: what is in them.

    python tests/golden/make_event_files.py        (tensorboard 2.21, tensorboardX 2.6.5, torch 2.8)

Lines of expected.txt: WRITER, "scalar", tag, step, value; or WRITER, "text", tag, step, text; separated by tabs.
"""
import pathlib
import shutil
import tempfile

import numpy
import tensorboardX
import torch.utils.tensorboard
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util import tensor_util

HERE = pathlib.Path(__file__).parent / "events"
TIME = 1767322245.25
expected = []


def scalar(writer, tag, step, value):
    expected.append(f"{writer}\tscalar\t{tag}\t{step}\t{float(value)!r}")


def text(writer, tag, step, value):
    expected.append(f"{writer}\ttext\t{tag}\t{step}\t{value}")


def collect(writer, folder):
    """The files of a folder under names without time, host and process."""
    (HERE / writer).mkdir(parents=True)
    for i, path in enumerate(sorted(pathlib.Path(folder).iterdir())):
        shutil.copyfile(path, HERE / writer / f"events.out.tfevents.{int(TIME)}.host.{i}")


def plugin(name):
    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=name))


def own_writer():
    """TensorBoard's own writer, with every way in which a number can be written."""
    def add(writer, step, **value):
        writer.add_event(Event(wall_time=TIME + step, step=step, summary=Summary(value=[Summary.Value(**value)])))

    shape = TensorShapeProto()
    with tempfile.TemporaryDirectory() as folder:
        writer = EventFileWriter(folder, filename_suffix=".a")
        for step in range(0, 40, 2):
            value = numpy.float32(10 / (step + 1))
            add(writer, step, tag="loss", simple_value=value)
            scalar("tensorboard", "loss", step, value)
        kinds = [("float", numpy.float32), ("double", numpy.float64), ("half", numpy.float16), ("int", numpy.int32),
                 ("long", numpy.int64), ("bool", numpy.bool_)]
        for name, kind in kinds:
            for step, value in enumerate([3.25, -0.1, 0, 65504, 6e-8]):
                value = kind(value)
                # The first value names the plugin; TensorFlow leaves it out afterwards.
                metadata = plugin("scalars") if step == 0 else None
                add(writer, step, tag=f"tensor/{name}", tensor=tensor_util.make_tensor_proto(value), metadata=metadata)
                scalar("tensorboard", f"tensor/{name}", step, value)
                content = TensorProto(dtype=tensor_util.make_tensor_proto(value).dtype, tensor_shape=shape,
                                      tensor_content=value.tobytes())
                add(writer, step, tag=f"content/{name}", tensor=content, metadata=plugin("scalars"))
                scalar("tensorboard", f"content/{name}", step, value)
        for step, bits in enumerate([0x3f80, 0xc000, 0x7f80]):
            tensor = TensorProto(dtype="DT_BFLOAT16", tensor_shape=shape, half_val=[bits])
            add(writer, step, tag="tensor/bfloat16", tensor=tensor, metadata=plugin("scalars"))
            scalar("tensorboard", "tensor/bfloat16", step, [1, -2, float("inf")][step])
        add(writer, 1, tag="zero", tensor=TensorProto(dtype="DT_FLOAT", tensor_shape=shape), metadata=plugin("scalars"))
        scalar("tensorboard", "zero", 1, 0)
        # What is neither a number nor a text.
        add(writer, 1, tag="histogram", histo=HistogramProto(min=0, max=1, num=2, bucket_limit=[1], bucket=[2]))
        add(writer, 1, tag="image", tensor=tensor_util.make_tensor_proto([b"1", b"1", b"png"]), metadata=plugin("images"))
        add(writer, 1, tag="vector", tensor=tensor_util.make_tensor_proto([1.0, 2.0]), metadata=plugin("scalars"))
        writer.add_event(Event(wall_time=TIME, step=1, graph_def=b"\x01\x02"))
        writer.add_event(Event(wall_time=TIME, step=1, session_log=SessionLog(status=SessionLog.START)))
        add(writer, 3, tag="note", tensor=tensor_util.make_tensor_proto([b"once"]), metadata=plugin("text"))
        text("tensorboard", "note", 3, "once")
        writer.close()
        # A second file goes on where the first ended.
        writer = EventFileWriter(folder, filename_suffix=".b")
        for step in range(40, 50, 2):
            add(writer, step, tag="loss", simple_value=step)
            scalar("tensorboard", "loss", step, step)
        writer.close()
        collect("tensorboard", folder)


def torch_writer():
    with tempfile.TemporaryDirectory() as folder:
        writer = torch.utils.tensorboard.SummaryWriter(folder)
        for step in range(30):
            value = numpy.float32(numpy.exp(-step / 7))
            writer.add_scalar("Loss/train", value, step, walltime=TIME + step)
            scalar("torch", "Loss/train", step, value)
            writer.add_scalar("new", value, step, walltime=TIME + step, new_style=True)
            scalar("torch", "new", step, value)
            writer.add_scalar("exact", 1 / (step + 3), step, walltime=TIME + step, new_style=True, double_precision=True)
            scalar("torch", "exact", step, 1 / (step + 3))
        for step in (10, 20):
            writer.add_text("sample", f"text at {step} <b>ünïcode</b>", step, walltime=TIME + step)
            text("torch", "sample/text_summary", step, f"text at {step} <b>ünïcode</b>")
        writer.add_histogram("weights", numpy.arange(10.0), 5, walltime=TIME)
        writer.close()
        collect("torch", folder)


def x_writer():
    with tempfile.TemporaryDirectory() as folder:
        writer = tensorboardX.SummaryWriter(folder)
        for step in range(1, 21):
            writer.add_scalar("train/loss", 2.0 / step, step, walltime=TIME + step)
            scalar("tensorboardX", "train/loss", step, numpy.float32(2.0 / step))
        writer.add_text("config", "lr: 1e-3", 0, walltime=TIME)
        text("tensorboardX", "config/text_summary", 0, "lr: 1e-3")
        writer.close()
        collect("tensorboardX", folder)


shutil.rmtree(HERE, ignore_errors=True)
own_writer()
torch_writer()
x_writer()
(HERE / "expected.txt").write_text("\n".join(expected) + "\n")

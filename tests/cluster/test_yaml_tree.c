// YAML as a tree: what is written reads back the same, merging follows kubectl's rules, and unsupported syntax is
// refused with its line.
#include "cluster/yaml.h"
#include "test.h"

static void expect_written(const char *text, const char *wanted) {
    struct yaml_node root, again;
    struct buffer out = {0}, second = {0};
    EXPECT_OK(yaml_tree_parse(&root, text, strlen(text), "pod.yaml"));
    yaml_tree_write(&root, 0, &out);
    EXPECT_STRING(buffer_string(&out), wanted);
    EXPECT_OK(yaml_tree_parse(&again, buffer_string(&out), out.length, "again"));
    yaml_tree_write(&again, 0, &second);
    EXPECT_STRING(buffer_string(&second), buffer_string(&out));
    yaml_tree_free(&root);
    yaml_tree_free(&again);
    buffer_free(&out);
    buffer_free(&second);
}

TEST(reads_and_writes) {
    expect_written("---\n# a pod\nspec:   # fields\n  replicas: 3\n  name: \"a # b\"\n  other: 'it''s'\n",
                   "spec:\n"
                   "  replicas: 3\n"
                   "  name: \"a # b\"\n"
                   "  other: \"it's\"\n");
    // Lists at the key's own indentation, maps that begin on a dash, lists of lists.
    expect_written("list:\n- a\n- key: 1\n  more: true\n-\n  deep: x\n- - b\n  - c\nlast: null\n", "list:\n"
                                                                                                   "  - a\n"
                                                                                                   "  - key: 1\n"
                                                                                                   "    more: true\n"
                                                                                                   "  - deep: x\n"
                                                                                                   "  -\n"
                                                                                                   "    - b\n"
                                                                                                   "    - c\n"
                                                                                                   "last: null\n");
    expect_written("flow: [a, \"b, c\", {key: 1, list: [x]}, []]\nempty: {}\nnone:\n", "flow:\n"
                                                                                       "  - a\n"
                                                                                       "  - \"b, c\"\n"
                                                                                       "  - key: 1\n"
                                                                                       "    list:\n"
                                                                                       "      - x\n"
                                                                                       "  - []\n"
                                                                                       "empty: {}\n"
                                                                                       "none: null\n");
    expect_written("{\"key\": \"1\", \"list\": [1, true, null]}", "key: \"1\"\nlist:\n  - 1\n  - true\n  - null\n");
    expect_written("text: \"a\\tb\\u00e9\\n\"\n\"odd: key\": 1\nurl: http://x:1/\n", "text: \"a\\u0009b\xc3\xa9\\n\"\n"
                                                                                     "\"odd: key\": 1\n"
                                                                                     "url: http://x:1/\n");
    expect_written("", "");
}

TEST(merges_as_kubectl_does) {
    static const char base[] =
        "spec:\n  grace: 300\n  gone: 1\n  containers:\n    - name: a\n      image: x\n      env:\n"
        "        - name: E\n          value: \"1\"\n  tolerations:\n    - key: k\n";
    static const char more[] =
        "spec:\n  grace: 60\n  gone: null\n  absent: ~\n  containers:\n    - name: side\n      image: z\n"
        "    - name: a\n      env: [{name: F, value: \"2\"}]\n  tolerations: [{key: l}]\n  host: true\n";
    struct yaml_node into, from;
    struct buffer out = {0};
    EXPECT_OK(yaml_tree_parse(&into, base, strlen(base), "base"));
    EXPECT_OK(yaml_tree_parse(&from, more, strlen(more), "more"));
    yaml_tree_merge(&into, &from);
    yaml_tree_write(&into, 0, &out);
    EXPECT_STRING(buffer_string(&out), "spec:\n"
                                       "  grace: 60\n"
                                       "  containers:\n"
                                       "    - name: a\n"
                                       "      image: x\n"
                                       "      env:\n"
                                       "        - name: E\n"
                                       "          value: \"1\"\n"
                                       "        - name: F\n"
                                       "          value: \"2\"\n"
                                       "    - name: side\n"
                                       "      image: z\n"
                                       "  tolerations:\n"
                                       "    - key: k\n"
                                       "    - key: l\n"
                                       "  host: true\n");
    yaml_tree_free(&into);
    yaml_tree_free(&from);
    buffer_free(&out);
}

TEST(refuses_with_the_line) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"a: 1\n\tb: 2\n", "pod.yaml:2: a tab"},
        {"a: |\n  text\n", "pod.yaml:1: anchors, aliases, tags and block scalars"},
        {"a: &x 1\n", "pod.yaml:1: anchors"},
        {"a: !!str 1\n", "pod.yaml:1: anchors"},
        {"a: 1\n---\nb: 2\n", "pod.yaml:2: a second document"},
        {"a: 1\na: 2\n", "pod.yaml:2: a is set a second time"},
        {"a: 1\n   b: 2\n", "pod.yaml:2: an indentation"},
        {"  a: 1\nb: 2\n", "pod.yaml:2: an indentation"},
        {"- a\n", "pod.yaml:1: a list"},
        {"a: [1, 2\n", "pod.yaml:1: a list or map"},
        {"a: \"x\n", "pod.yaml:1: a quote"},
        {"a: \"x\" y\n", "pod.yaml:1: there is text after"},
        {"a: \"\\q\"\n", "pod.yaml:1: an escape"},
        {"words\n", "pod.yaml:1: a line is neither"},
        {"a: b: c\n", "pod.yaml:1: a second colon"},
        {"a{\"b: c #d\n", "pod.yaml:1: a comment after"},
        {"a: b\t#c\n", "pod.yaml:1: a comment after"},
        {"a:\n  - x\n  y: 1\n", "pod.yaml:3"},
        {"a: [- b]\n", "pod.yaml:1: a value that begins"},
        {"a: [#b]\n", "pod.yaml:1: a value that begins"},
        {"a: [b: c]\n", "pod.yaml:1: a second colon"},
        {"a: x\rb\n", "pod.yaml:1: a control character"},
        {"{\"a\": 1, \"a\": 2}", "pod.yaml: a is set a second time"},
        {"{\"a\": }", "pod.yaml"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct yaml_node root;
        EXPECT_ERROR(yaml_tree_parse(&root, cases[i].text, strlen(cases[i].text), "pod.yaml"), cases[i].message);
        yaml_tree_free(&root);
    }
    struct buffer deep = {0};
    for (int i = 0; i < 200; i++)
        buffer_append_string(&deep, i == 0 ? "a: [" : "[");
    struct yaml_node root;
    EXPECT_ERROR(yaml_tree_parse(&root, buffer_string(&deep), deep.length, "pod.yaml"), "too many levels");
    yaml_tree_free(&root);
    buffer_free(&deep);
}

TEST_MAIN(TEST_CASE(reads_and_writes), TEST_CASE(merges_as_kubectl_does), TEST_CASE(refuses_with_the_line))

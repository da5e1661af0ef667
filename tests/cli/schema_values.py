"""A hypothesis strategy for JSON values that resemble schemas."""

from hypothesis import strategies as st

KEYWORDS = ["type", "anyOf", "oneOf", "allOf", "$ref", "enum", "properties", "items"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYWORDS) | st.text(max_size=2),
            inner | st.sampled_from(["#", "#/properties", "string", "array"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)

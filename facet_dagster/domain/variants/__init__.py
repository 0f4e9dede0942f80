"""How files of each format are altered: layouts of texts, databases, and other spellings of one content. Pure."""

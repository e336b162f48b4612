"""Turns an unpacked folder of Debian packages into one plain-text corpus (called by make_corpora.sh).

python3 corpus_text.py english|code|chinese FOLDER OUTPUT MIB
Files are taken in an order that depends only on their paths' hashes, markup is removed, and in prose a line of text is
kept only once (navigation bars, licence notes), so that the corpus does not repeat itself while there is fresh text.
"""

import gettext
import gzip
import hashlib
import html.parser
import pathlib
import re
import sys

CHINESE = re.compile(r"[\u4e00-\u9fa5]")


class PlainText(html.parser.HTMLParser):
    BLOCKS = {"p", "div", "li", "td", "th", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "br", "dt", "dd", "title"}

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.parts, self.hidden = [], 0

    def handle_starttag(self, tag, attributes):
        self.hidden += tag in ("script", "style")
        if tag in self.BLOCKS:
            self.parts.append("\n")

    def handle_endtag(self, tag):
        self.hidden -= tag in ("script", "style")
        if tag in self.BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data):
        if self.hidden <= 0:
            self.parts.append(data)


def html_text(data):
    parser = PlainText()
    parser.feed(data.decode("utf-8", "replace"))
    return "".join(parser.parts)


def roff_text(data):
    lines = [line for line in data.decode("utf-8", "replace").splitlines() if not line.startswith((".", "'"))]
    return re.sub(r"\\(f.|\(..|[&-])", "", "\n".join(lines))


def catalogue_text(path):
    try:
        with open(path, "rb") as file:
            catalogue = gettext.GNUTranslations(file)._catalog
    except (OSError, UnicodeDecodeError, ValueError):
        return ""
    return "\n".join(text for key, text in catalogue.items() if key and isinstance(text, str))


def file_text(path):
    name = path.name.removesuffix(".gz")
    if name.endswith(".mo"):
        return catalogue_text(path)
    packed = path.name.endswith((".gz", ".dict.dz"))
    try:
        data = gzip.open(path).read() if packed else path.read_bytes()
    except (OSError, EOFError):
        return ""
    if name.endswith((".html", ".htm", ".xhp")):
        return html_text(data)
    if re.search(r"\.\d[a-z]*$", name) and "/man/" in str(path):
        return roff_text(data)
    return data.decode("utf-8", "replace")


def wanted(corpus, path):
    name = path.name.removesuffix(".gz")
    if corpus == "code":
        return name.endswith((".c", ".h", ".py", ".hpp"))
    if corpus == "english":
        return name.endswith((".html", ".dict.dz", ".rst", ".txt")) and "locale" not in path.parts
    return name.endswith((".html", ".txt", ".mo")) or "/man/" in str(path) or "fortunes" in str(path)


def main():
    corpus, folder, output, mib = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), int(sys.argv[4])
    size = mib << 20
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and wanted(corpus, path)]
    files.sort(key=lambda path: hashlib.sha256(str(path.relative_to(folder)).encode()).digest())
    fresh, seen, used = bytearray(), set(), 0
    for path in files:
        text = file_text(path)
        if corpus != "code":
            lines = []
            for line in text.splitlines():
                line = line.rstrip()
                share = len(CHINESE.findall(line)) / max(1, len(line))
                if not line or (corpus == "chinese" and share < 0.3) or line.strip() in seen:
                    continue
                seen.add(line.strip())
                lines.append(line)
            text = "\n".join(lines)
        if not text:
            continue
        used += 1
        fresh += text.encode() + b"\n"
        if len(fresh) >= size:
            break
    if not fresh:
        sys.exit(f"corpus_text: no text for {corpus} in {folder}")
    whole = bytes(fresh)
    while len(whole) < size:
        whole += bytes(fresh)
    whole = whole[:size].decode("utf-8", "ignore").encode()
    output.write_bytes(whole)
    print(f"{corpus}: {len(whole)} bytes from {used} files, {len(fresh)} bytes of them fresh "
          f"({len(whole) / len(fresh):.1f} times the fresh text), sha256 {hashlib.sha256(whole).hexdigest()[:16]}")


if __name__ == "__main__":
    main()

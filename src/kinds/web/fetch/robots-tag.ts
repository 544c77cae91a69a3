// X-Robots-Tag: rules for everybody, and rules for the one who is named before them.
/** A colon also stands in rules that have a value; what is before it then is no name. */
const valued = /^(?:unavailable_after|max-[a-z-]+)$/;
const named = /^\s*([a-z_*][\w*-]*)\s*:(.*)$/s;

/** Whether the lines of the header say that links are not to be followed. A name holds until the next one, or the end of its line. */
export function forbidsFollowing(lines: readonly string[], botName: string): boolean {
  const rules = lines.flatMap((line) => rulesFor(line, botName.toLowerCase()));
  return rules.includes('nofollow') || rules.includes('none');
}

function rulesFor(line: string, botName: string): string[] {
  let isMine = true;
  const parts = line.toLowerCase().split(',');
  return parts.flatMap((part) => {
    const [, name, rest] = named.exec(part) ?? [];
    const isName = name !== undefined && !valued.test(name);
    if (isName) isMine = name === '*' || name === botName;
    return isMine ? (isName ? rest! : part).trim() : [];
  });
}

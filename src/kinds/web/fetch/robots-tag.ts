// Parses X-Robots-Tag: rules for all bots, and rules that follow a bot name.
/** Rules with a value also contain a colon, so these words are not bot names. */
const valued = /^(?:unavailable_after|max-[a-z-]+)$/;
const named = /^\s*([a-z_*][\w*-]*)\s*:(.*)$/s;

/** Whether the header forbids following links. A bot name applies until the next name or the end of its line. */
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

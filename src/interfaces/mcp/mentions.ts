// Removes sentences that mention tools the caller does not have. Tool texts refer to other tools, but toolsets, dialects and
// key scopes may hide some of them.
import type { JsonObject, ToolDefinition } from './source.ts';

/** Matches words that look like tool names with several parts. */
const toolWords = /[a-z0-9]+(?:[_-][a-z0-9]+)+/g;
const sentenceEnds = /(?<=[.!?])(\s+)(?=[A-Z`“"(-])/;

type IsAbsent = (word: string) => boolean;

/** `known` contains all tool names, `present` those of this caller. */
export function absentTools(known: ReadonlySet<string>, present: ReadonlySet<string>): IsAbsent {
  return (word) => known.has(word) && !present.has(word);
}

export function toolNamesIn(text: string): string[] {
  return text.match(toolWords) ?? [];
}

export function withoutMentions(text: string, isAbsent: IsAbsent): string {
  if (!toolNamesIn(text).some(isAbsent)) return text;
  return text
    .split('\n')
    .map((line) => keepSentences(line, isAbsent))
    .filter((line, n, lines) => line !== '' || (n > 0 && lines[n - 1] !== ''))
    .join('\n')
    .trim();
}

export function definitionWithoutMentions(
  definition: ToolDefinition,
  isAbsent: IsAbsent,
): ToolDefinition {
  return {
    ...definition,
    description: withoutMentions(definition.description, isAbsent),
    inputSchema: schemaWithoutMentions(definition.inputSchema, isAbsent) as JsonObject,
  };
}

function keepSentences(line: string, isAbsent: IsAbsent): string {
  // Odd entries are the spaces between sentences.
  const parts = line.split(sentenceEnds);
  const kept = parts.filter((_, n) => {
    const sentence = parts[n % 2 === 0 ? n : n - 1]!;
    return !toolNamesIn(sentence).some(isAbsent);
  });
  return kept.join('').trimEnd();
}

function schemaWithoutMentions(part: unknown, isAbsent: IsAbsent): unknown {
  if (Array.isArray(part)) return part.map((one) => schemaWithoutMentions(one, isAbsent));
  if (part === null || typeof part !== 'object') return part;
  return Object.fromEntries(
    Object.entries(part).map(([key, value]) => [
      key,
      key === 'description' && typeof value === 'string'
        ? withoutMentions(value, isAbsent)
        : schemaWithoutMentions(value, isAbsent),
    ]),
  );
}

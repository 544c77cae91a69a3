// Keeps words out of the tree that readers had to decode. docs/words.md says what to write instead.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

const root = join(import.meta.dirname, '..');

/** Phrases in comments, texts and docs. */
const phrases: RegExp[] = [
  /\bat once\b/i,
  /\bwho(?:m|so)?ever\b/i,
  /\bbeside\b/i,
  /\bso (?:many|much|long|often)\b/i,
  /\btold\b/i,
  /\balso (?:when|while|if|after|where)\b/i,
  /\banew\b/i,
  /\bof late\b/i,
  /\bwhat is `?\w+`? for\b/i,
  /\bthere is not\b/i,
  /\bis no \w+ of the\b/i,
  /\bone can\b/i,
  /\bmended\b/i,
  /\bpatience\w*/i,
  /\bin vain\b/i,
  /\bis said\b/i,
  /\bare said\b/i,
  /\bgoes? on (?:where|from|with)\b/i,
  /\bleft out: of\b/i,
  /\bby itself after\b/i,
];

/** Identifiers of their own, or as a word inside a camelCase identifier. */
const identifiers: RegExp[] = [
  /\b\w*(?:[Ww]ish|Wishes)(?:es|ed|Of|OfPart)?\b/,
  /\b[A-Z]\w*[a-z]Needs\b/,
  /\bDesk\b/,
  /\b[Hh]and[Oo]ut\w*\b/,
  /\bTimekeeper\w*\b/,
  /\bFollowup\w*\b/,
  /\bIntake\w*\b/,
  /\bLitter\w*\b/,
  /\bLeftovers\w*\b/,
  /\bWalls\b/,
  /\bDetours\b/,
  /\bTrail\b/,
  /\bAllowance\b/,
  /\bLane(?:Options)?\b/,
  /\bTap\b/,
  /\bKeeper\w*\b/,
  /\b(?:tapped|bring|conclude)\(/,
  /\bOutside\b/,
  /\b[a-z]\w*(?:Max|Min)\b/,
];

/** Names of other systems: their APIs use them. */
const foreign = /\bworkers(?:Max|Min)\b/g;

/** Files that quote the words, contain text of other programs, or migrate old names. */
const excluded = [
  /(?:^|\/)(?:config-upgrade|migrations)(?:\.test)?\.ts$/,
  /^test\/kinds\/(?:command|endpoint)\/store\/store\.test\.ts$/,
  /^test\/dialects\/firecrawl\/json\.test\.ts$/,
  /^test\/words\.test\.ts$/,
  /^docs\/words\.md$/,
  /^test\/fixtures\//,
  /^test\/snapshots\//,
  /package-lock\.json$/,
  /model\.json$/,
  /contract\.json$/,
];

const files = execFileSync(
  'git',
  [
    'ls-files',
    '-co',
    '--exclude-standard',
    'src',
    'docs',
    'test',
    'bench',
    'scripts',
    'examples',
    '*.md',
  ],
  { cwd: root, encoding: 'utf8' },
)
  .split('\n')
  .filter((file) => /\.(?:ts|md|json|cjs|js|sh)$/.test(file))
  .filter((file) => !excluded.some((pattern) => pattern.test(file)));

test('no banned phrase is used', () => {
  assert.deepEqual(findAll(phrases), []);
});

test('no metaphor, invented noun or second word for the same concept in identifiers', () => {
  assert.deepEqual(findAll(identifiers, /\.(?:ts|js|cjs)$/), []);
});

function findAll(patterns: readonly RegExp[], only = /./): string[] {
  return files
    .filter((file) => only.test(file))
    .flatMap((file) => {
      const lines = readFileSync(join(root, file), 'utf8').replaceAll(foreign, '').split('\n');
      return lines.flatMap((line, i) => {
        const found = patterns.find((pattern) => pattern.test(line));
        return found ? [`${file}:${i + 1}: ${found.exec(line)![0]}`] : [];
      });
    });
}

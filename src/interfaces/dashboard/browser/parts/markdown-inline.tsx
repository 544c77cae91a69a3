// Emphasis, code and links within one block of Markdown.
import type { ComponentChildren } from 'preact';

const maxDepth = 4;
/** Longer texts are shown as they are: hostile text must not cost quadratic time. */
const maxChars = 5000;

const token = new RegExp(
  [
    String.raw`\\(?<escaped>[!-/:-@[-\`{-~])`,
    String.raw`(?<ticks>\`+)(?<code>.+?)\k<ticks>(?!\`)`,
    String.raw`!\[(?<alt>[^\]]*)\]\((?<picture>[^()\s]*)[^)]*\)`,
    String.raw`\[(?<label>[^[\]]+)\]\(<?(?<target>[^()\s>]*)>?[^)]*\)`,
    String.raw`(?<strong>\*\*|__)(?=\S)(?<bold>.+?)\k<strong>`,
    String.raw`(?<![\w*])(?<em>[*_])(?=\S)(?<italic>[^*_]+)\k<em>(?!\w)`,
    '~~(?<struck>[^~]+)~~',
    '<(?<bare>https?:[^<>\\s]+)>',
  ].join('|'),
  'gs',
);

export function inline(text: string, depth = 0): ComponentChildren[] {
  if (text.length > maxChars || depth > maxDepth) return [text];
  const parts: ComponentChildren[] = [];
  let at = 0;
  for (const match of text.matchAll(token)) {
    if (match.index > at) parts.push(text.slice(at, match.index));
    parts.push(elementOf(match.groups!, depth + 1));
    at = match.index + match[0].length;
  }
  if (at < text.length) parts.push(text.slice(at));
  return parts;
}

type Groups = Readonly<Record<string, string | undefined>>;

function elementOf(groups: Groups, depth: number): ComponentChildren {
  const { escaped, code, alt, picture = '', label, target = '', bold, italic, struck } = groups;
  if (escaped !== undefined) return escaped;
  if (code !== undefined) return <code>{code}</code>;
  // A remote picture would tell its server who reads the page.
  if (alt !== undefined) return link(picture, [`[picture${alt === '' ? '' : `: ${alt}`}]`]);
  if (label !== undefined) return link(target, inline(label, depth));
  if (bold !== undefined) return <strong>{inline(bold, depth)}</strong>;
  if (italic !== undefined) return <em>{inline(italic, depth)}</em>;
  if (struck !== undefined) return <s>{inline(struck, depth)}</s>;
  return link(groups.bare ?? '', [groups.bare]);
}

function link(target: string, label: ComponentChildren[]): ComponentChildren {
  if (!/^https?:\/\//i.test(target)) return label;
  return (
    <a href={target} target="_blank" rel="noopener noreferrer nofollow" title={target}>
      {label}
    </a>
  );
}

// Compares a page's markdown with the page's own main container, parsed by a different parser than
// the one under test: words, headings, code, table cells, links of index pages.
import { load, type Cheerio, type CheerioAPI } from 'cheerio';
import { tokens as allTokens } from './score.ts';

/**
 * Word break marks are not text, and neither is a word without a letter or digit. Characters that
 * markdown uses as markup are removed on both sides.
 */
const tokens = (text: string): string[] =>
  allTokens(text.replace(/[\u00AD\u200B-\u200D\u2060\uFEFF*`]|~~/g, '')).filter(
    (word) => !/^_+$/.test(word),
  );

type Part = Cheerio<never>;

export interface PageMeasure {
  words: number;
  wordsKept: number;
  headings: number;
  headingsKept: number;
  pres: number;
  presKept: number;
  cells: number;
  cellsKept: number;
  /** Links on pages that are mostly links. */
  links: number;
  linksKept: number;
  missing: string[];
}

/** A page is an index when this share of its words is in links. */
const indexShare = 0.5;
const maxMissing = 5;
/** Shorter texts match by chance in a text without spaces. */
const minJoined = 30;

export function measurePage(
  html: string,
  url: string,
  markdown: string,
  site: { containers: readonly string[]; without: readonly string[] },
): PageMeasure | undefined {
  const $ = load(html);
  const selector = site.containers.find((one) => $(one).length > 0);
  if (selector === undefined) return undefined;
  $('script, style, template, head, svg, math, select, textarea').remove();
  for (const part of site.without) $(part).remove();
  const main = $(selector).first() as Part;
  const text = textOf(main);
  const plain = toPlainText(markdown.replace(/^( *(?:> ?)*)\d+\. /gm, '$1'));
  const [words, wordsKept] = overlap(tokens(text), tokens(plain));
  const missing: string[] = [];
  const kept = (list: readonly string[], holds: (one: string) => boolean): number =>
    list.filter((one) => {
      const isKept = holds(one);
      if (!isKept && missing.length < maxMissing) missing.push(one.slice(0, 120));
      return isKept;
    }).length;
  const texts = (name: string, from = main) =>
    from
      .find(name)
      .toArray()
      .map((element) => key(textOf($(element) as Part)))
      .filter((one) => one !== '');
  const headings = texts('h1, h2, h3, h4, h5, h6');
  const headed = counted(markdown.split('\n').flatMap(headingOf));
  const pres = texts('pre');
  const fenced = [...codeOf(markdown), ...tableRows(markdown)].map((one) => key(one));
  const cells = texts('td, th').filter((one) => one.length <= 2000);
  const stream = ` ${key(plain)} `;
  const links = isIndex($, main, words) ? linksOf($, main, url) : [];
  const linked = new Set([...markdown.matchAll(linkTarget)].map(([, to]) => bare(to!)));
  return {
    words,
    wordsKept,
    headings: headings.length,
    headingsKept: kept(headings, (one) => take(headed, one)),
    pres: pres.length,
    presKept: kept(pres, (one) => fenced.some((code) => code.includes(one))),
    cells: cells.length,
    cellsKept: cellsKept(cells, stream, missing),
    links: links.length,
    linksKept: kept(links, (one) => linked.has(one)),
    missing,
  };
}

/** A cell text counts as often as the page contains it: a row that lost a repeated value is incomplete. */
function cellsKept(cells: readonly string[], stream: string, missing: string[]): number {
  let kept = 0;
  let joined: string | undefined;
  const squeezed = () => (joined ??= stream.replaceAll(' ', ''));
  for (const [text, count] of counted(cells)) {
    let found = Math.min(count, stream.split(` ${text} `).length - 1 + overlaps(stream, text));
    // Adjacent pieces of code are one word on the page and two in markdown.
    if (found < count && text.length >= minJoined)
      found = Math.min(count, squeezed().split(text.replaceAll(' ', '')).length - 1);
    if (found < count && missing.length < maxMissing) missing.push(`cell ${text.slice(0, 100)}`);
    kept += found;
  }
  return kept;
}

/** Adjacent equal cells share the space between them, which `split` consumes only once. */
function overlaps(stream: string, text: string): number {
  let count = 0;
  const pair = ` ${text} ${text} `;
  for (let at = stream.indexOf(pair); at >= 0; at = stream.indexOf(pair, at + text.length + 1))
    count++;
  return count;
}

function isIndex($: CheerioAPI, main: Part, words: number): boolean {
  const inLinks = main
    .find('a[href]')
    .toArray()
    .reduce((sum, link) => sum + tokens($(link).text()).length, 0);
  return words > 0 && inLinks >= indexShare * words;
}

function linksOf($: CheerioAPI, main: Part, url: string): string[] {
  const found = new Set<string>();
  for (const link of main.find('a[href]').toArray()) {
    const href = $(link).attr('href')!;
    if (href.startsWith('#') || tokens($(link).text()).length === 0) continue;
    const to = URL.parse(href, url);
    if (to && /^https?:$/.test(to.protocol)) found.add(bare(to.href));
  }
  return [...found];
}

/** An address in parentheses, which may itself contain balanced parentheses. */
const linkTarget = /\]\(<?((?:[^()\s>]|\([^()\s]*\))+)/g;

const bare = (url: string): string => decodeURI(url.replace(/%(?![0-9a-f]{2})/gi, '%25'));

const blockTags =
  /^(?:address|article|aside|blockquote|body|br|button|caption|dd|details|div|dl|dt|figcaption|figure|footer|form|h[1-6]|header|hr|li|main|nav|ol|p|pre|section|summary|table|tbody|td|tfoot|th|thead|tr|ul)$/;

interface Node {
  type: string;
  data?: string;
  name?: string;
  children?: Node[];
}

function textOf(part: Part): string {
  const parts: string[] = [];
  const stack: (Node | string)[] = [...(part.toArray() as unknown as Node[])].toReversed();
  while (stack.length > 0) {
    const node = stack.pop()!;
    if (typeof node === 'string') parts.push(node);
    else if (node.type === 'text') parts.push(node.data ?? '');
    else {
      const gap = blockTags.test(node.name ?? '') ? '\n' : '';
      parts.push(gap);
      stack.push(gap, ...(node.children ?? []).toReversed());
    }
  }
  return parts.join('');
}

const key = (text: string): string => tokens(text).join(' ');

/** Markdown without what is not on the page: addresses, fences, escapes and markup. */
function toPlainText(markdown: string): string {
  return (
    markdown
      .replace(/\]\((?:<[^>\n]*>|[^)\s]*)\)/g, '] ')
      .replace(/^ *(?:> ?)*(?:[-*] )*`{3,}.*$/gm, '')
      // An alert marker replaces the title of a note.
      .replace(/^[\s>]*> \[!([A-Z]+)\]$/gm, '$1')
      .replace(/\\([!-/:-@[-`{-~])/g, '$1')
      .replace(/\*|~~|`|<br>/g, (mark) => (mark === '<br>' ? ' ' : ''))
  );
}

function headingOf(line: string): string[] {
  const match = /^[\s>-]*(?:\d+\. )?#{1,6} (.*)$/.exec(line);
  return match ? [key(toPlainText(match[1]!))] : [];
}

/** The text inside fences. */
function codeOf(markdown: string): string[] {
  const found: string[] = [];
  let fence = '';
  let lines: string[] = [];
  for (const line of markdown.split('\n')) {
    const ticks = /^[\s>*-]*(?:\d+\. )?(`{3,})[^`]*$/.exec(line)?.[1];
    if (fence === '' && ticks !== undefined) {
      fence = ticks;
      lines = [];
    } else if (fence !== '' && ticks !== undefined && ticks.length >= fence.length) {
      found.push(lines.join('\n'));
      fence = '';
    } else if (fence !== '') lines.push(line);
  }
  return found;
}

/** A cell contains code as spans, because a row cannot contain a fence. */
function tableRows(markdown: string): string[] {
  return markdown
    .split('\n')
    .filter((line) => /^[\s>]*\|/.test(line))
    .map(toPlainText);
}

function counted(list: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const one of list) counts.set(one, (counts.get(one) ?? 0) + 1);
  return counts;
}

function take(counts: Map<string, number>, one: string): boolean {
  const left = counts.get(one) ?? 0;
  counts.set(one, left - 1);
  return left > 0;
}

function overlap(wanted: readonly string[], found: readonly string[]): [number, number] {
  const counts = counted(found);
  return [wanted.length, wanted.filter((word) => take(counts, word)).length];
}

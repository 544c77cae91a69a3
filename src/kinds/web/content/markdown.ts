// The tree as Markdown (GFM): headings, lists, tables, code fences, quotes, links with absolute
// addresses. `Selection` says which texts are wanted; elements without any wanted text are never
// entered.
import { isBlockTag } from './blocks.ts';
import { isElement, isText, rawText, walk, withoutInvisible } from './dom.ts';
import type { AnyNode, Element, Text } from './dom.ts';
import { formula } from './formula.ts';
import { isApart } from './gaps.ts';
import { imageSource } from './head.ts';
import type { Selection } from './selection.ts';
import { renderTable } from './tables.ts';

export interface MarkdownOptions {
  includeLinks: boolean;
  includeImages: boolean;
  resolve(href: string): string | undefined;
}

export function renderMarkdown(
  root: AnyNode,
  selection: Selection,
  options: MarkdownOptions,
): string {
  const text = new MarkdownWriter(selection, options).flow(root);
  return text.replace(/\n{3,}/g, '\n\n').trim();
}

const marks: Record<string, string> = {
  strong: '**',
  b: '**',
  em: '*',
  i: '*',
  del: '~~',
  s: '~~',
  strike: '~~',
};
const codeTags = new Set(['code', 'kbd', 'samp', 'tt', 'var']);
/** Nesting beyond this is flattened to text: it is no structure a reader could see. */
const nestingMax = 200;
/** Pictures and formulas of one element without words. */
const unspokenMax = 8;

class MarkdownWriter {
  private readonly selection: Selection;
  private readonly options: MarkdownOptions;
  private nesting = 0;
  private link: string | undefined;
  private before: Text | undefined;

  constructor(selection: Selection, options: MarkdownOptions) {
    this.selection = selection;
    this.options = options;
  }

  /** Block content: paragraphs and blocks with a blank line between them. */
  flow(parent: AnyNode): string {
    const parts: string[] = [];
    let run: AnyNode[] = [];
    const flush = () => {
      if (run.length > 0) {
        const text = this.paragraph(run);
        if (text !== '') parts.push(text);
      }
      run = [];
    };
    for (const child of 'children' in parent ? parent.children : []) {
      if (isText(child) || (isElement(child) && !this.isBlock(child))) run.push(child);
      else if (isElement(child)) {
        flush();
        const text = this.block(child);
        if (text !== '') parts.push(text);
      }
    }
    flush();
    return parts.join('\n\n');
  }

  /** Inline content on one line. */
  line(parent: AnyNode): string {
    return this.inline('children' in parent ? parent.children : [])
      .replace(/\s+/g, ' ')
      .trim();
  }

  wants(node: AnyNode): boolean {
    return this.selection.has(node);
  }

  private isBlock(element: Element): boolean {
    if (isBlockTag(element.name)) return true;
    return this.selection.has(element) && this.selection.holdsBlocks(element);
  }

  private block(element: Element): string {
    const { name } = element;
    if (name === 'hr') return this.selection.all ? '---' : '';
    if (!this.selection.has(element)) return this.unspoken(element);
    if (this.nesting > nestingMax) return escapeStart(this.line(element));
    this.nesting++;
    try {
      return this.wantedBlock(element);
    } finally {
      this.nesting--;
    }
  }

  private wantedBlock(element: Element): string {
    const { name } = element;
    switch (name) {
      case 'h1':
      case 'h2':
      case 'h3':
      case 'h4':
      case 'h5':
      case 'h6':
        return heading(Number(name[1]), this.line(element));
      case 'ul':
      case 'ol':
      case 'menu':
      case 'dir':
        return this.list(element);
      case 'li':
        return indented('- ', this.flow(element));
      case 'pre':
        return fence(element);
      case 'blockquote':
        return this.flow(element).replace(/^/gm, '> ').replace(/^> $/gm, '>');
      case 'table':
        return renderTable(element, this);
      case 'dt':
      case 'summary':
        return emphasised(this.line(element));
      case 'a':
        return this.linkedFlow(element);
      default:
        return this.flow(element);
    }
  }

  private list(element: Element): string {
    const ordered = element.name === 'ol';
    let number = Number.parseInt(element.attribs.start ?? '1', 10) || 1;
    const items: string[] = [];
    for (const child of element.children) {
      if (!isElement(child)) continue;
      const wanted = this.selection.has(child);
      const body = wanted ? this.flow(child) : this.unspoken(child);
      const mark = ordered ? `${number}. ` : '- ';
      if (child.name === 'li') number++;
      if (body === '') continue;
      items.push(child.name === 'li' ? indented(mark, body) : body);
    }
    const loose = items.some((item) => item.includes('\n\n'));
    return items.join(loose ? '\n\n' : '\n');
  }

  /** A link around blocks (a card): its first run of text carries the address. */
  private linkedFlow(element: Element): string {
    const { href } = element.attribs;
    this.link =
      href !== undefined && this.options.includeLinks ? this.options.resolve(href) : undefined;
    const text = this.flow(element);
    this.link = undefined;
    return text;
  }

  private paragraph(run: readonly AnyNode[]): string {
    const lines = this.inline(run).split('\n');
    const text = lines
      .map((line) => line.replace(/[^\S\n]+/g, ' ').trim())
      .join('  \n')
      .trim();
    const tidy = text
      .replace(/(?: {2}\n)+$/, '')
      .replace(/^(?:\s*\n)+/, '')
      .replace(/(?: {2}\n){3,}/g, '\n\n');
    return this.linked(escapeStart(tidy));
  }

  private linked(text: string): string {
    const { link } = this;
    if (link === undefined || text === '' || text.includes('](')) return text;
    this.link = undefined;
    return `[${text.replace(/\s*\n\s*/g, ' ')}](${link})`;
  }

  private inline(nodes: readonly AnyNode[]): string {
    let text = '';
    for (const node of nodes) {
      if (isText(node)) {
        if (this.selection.has(node))
          text += this.apart(node) + escapeInline(withoutInvisible(node.data).replace(/\s+/g, ' '));
        else if (/\s/.test(node.data)) text += ' ';
      } else if (isElement(node)) {
        const inner = this.inlineElement(node);
        // 10 to the 6th is not 106.
        const isPower = node.name === 'sup' && /^[-−+]?\d{1,4}$/.test(inner.trim());
        text += isPower && /[\p{L}\p{N})]$/u.test(text) ? `^${inner.trim()}` : inner;
      }
    }
    return text;
  }

  /** A space where the text before ends a word that only styles keep apart from this one. */
  private apart(text: Text): string {
    const { before } = this;
    this.before = text;
    return before && isApart(before, text) ? ' ' : '';
  }

  private inlineElement(element: Element): string {
    const { name, attribs } = element;
    if (name === 'br') return '\n';
    if (name === 'img') return this.picture(element);
    if (name === 'input') return checkbox(element);
    if (!this.selection.has(element)) return this.unspoken(element);
    if (this.nesting > nestingMax) return rawText(element);
    this.nesting++;
    const inner = codeTags.has(name) ? this.plain(element) : this.inline(element.children);
    this.nesting--;
    if (isBlockTag(name)) return ` ${inner} `;
    const text = inner.trim();
    if (text === '') return inner === '' ? '' : ' ';
    if (codeTags.has(name)) return around(inner, codeSpan(text));
    if (name === 'a' && isPermalink(attribs.href, text)) return '';
    if (name === 'a') return around(inner, this.anchor(element, text));
    const mark = marks[name];
    if (mark === undefined || text.includes('\n') || text.includes(mark)) return inner;
    return around(inner, `${mark}${text}${mark}`);
  }

  private anchor({ attribs }: Element, text: string): string {
    if (!this.options.includeLinks || attribs.href === undefined || text.includes(']('))
      return text;
    const url = /^(?:#|javascript:)/i.test(attribs.href)
      ? undefined
      : this.options.resolve(attribs.href);
    if (url === undefined) return text;
    return `[${text.replace(/\s*\n\s*/g, ' ')}](${url})`;
  }

  private plain(element: Element): string {
    let text = '';
    for (const child of element.children) {
      if (isText(child)) {
        if (this.selection.has(child)) text += this.apart(child) + child.data.replace(/\s+/g, ' ');
      } else if (isElement(child)) text += child.name === 'br' ? ' ' : this.plain(child);
    }
    return text;
  }

  private picture({ attribs }: Element): string {
    if (!this.options.includeImages) return '';
    const source = imageSource(attribs);
    const url = source === undefined ? undefined : this.options.resolve(source);
    if (url === undefined) return '';
    return `![${(attribs.alt ?? '').replace(/[[\]\s]+/g, ' ').trim()}](${url})`;
  }

  /** Pictures and formulas of an element that has no text of its own, inside wanted content. */
  private unspoken(element: Element): string {
    const found: string[] = [];
    walk(element, (node) => {
      if (!isElement(node)) return false;
      const isMath = node.name === 'math';
      if (found.length === unspokenMax || (!isMath && this.selection.hasText(node))) return false;
      const text = isMath ? formula(node) : node.name === 'img' ? this.picture(node) : '';
      if (text !== '') found.push(text);
      return !isMath;
    });
    return found.join('\n\n');
  }
}

/** The mark beside a heading that links to itself. */
function isPermalink(href: string | undefined, text: string): boolean {
  return href !== undefined && href.includes('#') && /^(?:¶|#|§|🔗|\u{F0C1})$/u.test(text);
}

function heading(level: number, text: string): string {
  return text === '' ? '' : `${'#'.repeat(level)} ${text.replace(/^\*\*(.*)\*\*$/, '$1')}`;
}

function emphasised(text: string): string {
  return text === '' || text.includes('**') ? text : `**${text}**`;
}

function indented(mark: string, body: string): string {
  if (body === '') return '';
  return mark + body.replace(/\n(?=[^\n])/g, `\n${' '.repeat(mark.length)}`);
}

/** Spaces at the ends of an inline element belong outside its marks. */
function around(inner: string, marked: string): string {
  return `${/^\s/.test(inner) ? ' ' : ''}${marked}${/\s$/.test(inner) ? ' ' : ''}`;
}

function codeSpan(text: string): string {
  const ticks = '`'.repeat(longestRun(text) + 1);
  const pad = text.startsWith('`') || text.endsWith('`') ? ' ' : '';
  return `${ticks}${pad}${text}${pad}${ticks}`;
}

function longestRun(text: string): number {
  return Math.max(0, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
}

function fence(element: Element): string {
  const code = withBreaks(element).replace(/^\n+|\s+$/g, '');
  if (code === '') return '';
  const ticks = '`'.repeat(Math.max(3, longestRun(code) + 1));
  return `${ticks}${codeLanguage(element)}\n${code}\n${ticks}`;
}

function withBreaks(element: Element): string {
  let text = '';
  for (const child of element.children) {
    if (isText(child)) text += child.data;
    else if (isElement(child)) {
      if (child.name === 'br') text += '\n';
      else if (child.name !== 'script' && child.name !== 'style' && child.name !== 'button') {
        text += withBreaks(child);
        if (
          (child.name === 'div' || child.name === 'p' || child.name === 'tr') &&
          !text.endsWith('\n')
        )
          text += '\n';
      }
    }
  }
  return text;
}

const languageMarks = 'language|lang|brush:|highlight-source|highlight|sourceCode|prettyprint lang';
const languageClass = new RegExp(
  String.raw`(?:^|\s)(?:${languageMarks})[-:\s]*([a-z0-9+#]{1,20})(?=\s|$|;)`,
  'i',
);

function codeLanguage(pre: Element): string {
  const code = pre.children.find(
    (child): child is Element => isElement(child) && child.name === 'code',
  );
  const near = [code, pre, isElement(pre.parent) ? pre.parent : undefined];
  for (const element of near) {
    if (!element) continue;
    const named = element.attribs['data-lang'] ?? element.attribs['data-language'];
    if (named !== undefined && /^[\w+#-]{1,20}$/.test(named)) return named.toLowerCase();
    const match = languageClass.exec(element.attribs.class ?? '')?.[1];
    if (match !== undefined && !/^(?:none|plain|highlight|default|copy)$/i.test(match))
      return match.toLowerCase();
  }
  return '';
}

/** Task lists only: elsewhere a checkbox is a control of the page. */
function checkbox({ attribs, parent }: Element): string {
  const above = parent && isElement(parent) && parent.name !== 'li' ? parent.parent : parent;
  if (attribs.type !== 'checkbox' || !above || !isElement(above) || above.name !== 'li') return '';
  return 'checked' in attribs ? '[x] ' : '[ ] ';
}

/** Text that would open a tag is shown, not obeyed. */
function escapeInline(text: string): string {
  return text.includes('<') ? text.replace(/<(?=[a-z/!?])/gi, '\\<') : text;
}

/** Text that would open a block (heading, quote, list) by accident. */
function escapeStart(text: string): string {
  return text.replace(
    /^(#{1,6} |>|[-+*] |(\d+)([.)]) )/gm,
    (match, _all, digits?: string, dot?: string) =>
      digits === undefined ? `\\${match}` : `${digits}\\${dot} `,
  );
}

// The tree as Markdown (GFM): headings, lists, tables, code fences, quotes, links with absolute
// addresses. `Selection` says which texts are wanted; elements without any wanted text are never
// entered.
import { byName } from '../../../runtime/by-name.ts';
import { isBlockTag } from './blocks.ts';
import { codeSpan, fence } from './code.ts';
import { isElement, isText, walk, withoutInvisible } from './dom.ts';
import type { AnyNode, Element, Text } from './dom.ts';
import { formula } from './formula.ts';
import { isApart } from './gaps.ts';
import { imageSource } from './head.ts';
import {
  codeIn,
  deleted,
  emphasis,
  hasLink,
  linkTo,
  literal,
  paragraphOf,
  pictureAt,
  strong,
  without,
  written,
} from './literals.ts';
import type { Selection } from './selection.ts';
import { renderTable } from './tables.ts';

export interface MarkdownOptions {
  includeLinks: boolean;
  includeImages: boolean;
  resolve(href: string): string | undefined;
  /** Whether a reader sees nothing of an element. */
  hides(element: Element): boolean;
}

export function renderMarkdown(
  root: AnyNode,
  selection: Selection,
  options: MarkdownOptions,
): string {
  const text = new MarkdownWriter(selection, options).flow(root);
  return text.replace(/\n{3,}/g, '\n\n').trim();
}

const marks: Record<string, readonly [string, string]> = byName({
  strong,
  b: strong,
  em: emphasis,
  i: emphasis,
  del: deleted,
  s: deleted,
  strike: deleted,
});
const codeTags = new Set(['code', 'kbd', 'samp', 'tt', 'var']);
/** Nesting beyond this is flattened to text: it is no structure a reader could see. */
const nestingMax = 200;
/** Pictures and formulas of one element without words. */
const unspokenMax = 8;
const signCharsMax = 20;

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

  /** Inline content on one line, not written yet. */
  private line(parent: AnyNode): string {
    return this.inline('children' in parent ? parent.children : [])
      .replace(/\s+/g, ' ')
      .trim();
  }

  title(caption: AnyNode): string {
    return paragraphOf(this.line(caption));
  }

  /** A cell may be a mere sign (✓, –), which is no text of its own but says something in its row. */
  cell(cell: Element): string {
    const text = this.line(cell) || this.sign(cell);
    return written(text).replace(/\|/g, '\\|');
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
    if (!this.selection.has(element)) return written(this.unspoken(element));
    if (this.nesting > nestingMax) return paragraphOf(this.line(element));
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
        return heading(Number(name[1]), without(this.line(element), strong));
      case 'ul':
      case 'ol':
      case 'menu':
      case 'dir':
        return this.list(element);
      case 'li':
        return indented('- ', this.flow(element));
      case 'pre':
        return fence(element, this.options.hides);
      case 'blockquote':
        return this.flow(element).replace(/^/gm, '> ').replace(/^> $/gm, '>');
      case 'table':
        return renderTable(element, this);
      case 'dt':
      case 'summary':
        return emphasised(without(this.line(element), strong));
      case 'a':
        return this.linkedFlow(element);
      default:
        return this.flow(element);
    }
  }

  private list(element: Element): string {
    const ordered = element.name === 'ol';
    let number = ordinal(element.attribs.start) ?? 1;
    const items: string[] = [];
    for (const child of element.children) {
      if (!isElement(child)) continue;
      const wanted = this.selection.has(child);
      const body = wanted ? this.flow(child) : written(this.unspoken(child));
      if (child.name === 'li') number = ordinal(child.attribs.value) ?? number;
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
    const tidy = text.replace(/(?: {2}\n){3,}/g, '\n\n');
    return paragraphOf(this.linked(tidy));
  }

  private linked(text: string): string {
    const { link } = this;
    if (link === undefined || text === '' || hasLink(text)) return text;
    this.link = undefined;
    return linkTo(link, text);
  }

  private inline(nodes: readonly AnyNode[]): string {
    let text = '';
    for (const node of nodes) {
      if (isText(node)) {
        if (this.selection.has(node))
          text += this.apart(node) + literal(withoutInvisible(node.data).replace(/\s+/g, ' '));
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
    if (!this.selection.has(element)) {
      const found = this.unspoken(element);
      return name === 'a' && found !== '' ? this.anchor(element, found) : found;
    }
    if (this.nesting > nestingMax) return literal(this.plain(element));
    this.nesting++;
    const inner = codeTags.has(name) ? this.plain(element) : this.inline(element.children);
    this.nesting--;
    if (isBlockTag(name)) return ` ${inner} `;
    const text = inner.trim();
    if (text === '') return inner === '' ? '' : ' ';
    if (codeTags.has(name)) return around(inner, codeIn(codeSpan(text)));
    if (name === 'a' && isPermalink(attribs.href, text)) return '';
    if (name === 'a') return around(inner, this.anchor(element, text));
    if (name === 'rt') return `(${text})`;
    const mark = marks[name];
    if (mark === undefined || text.includes('\n')) return inner;
    return around(inner, `${mark[0]}${text}${mark[1]}`);
  }

  private anchor({ attribs }: Element, text: string): string {
    if (!this.options.includeLinks || attribs.href === undefined || hasLink(text)) return text;
    const url = /^(?:#|javascript:)/i.test(attribs.href)
      ? undefined
      : this.options.resolve(attribs.href);
    return url === undefined ? text : linkTo(url, text);
  }

  private plain(element: Element): string {
    let text = '';
    for (const child of element.children) {
      if (isText(child)) {
        if (this.selection.has(child))
          text += this.apart(child) + withoutInvisible(child.data).replace(/\s+/g, ' ');
      } else if (isElement(child) && child.name === 'br') text += ' ';
      else if (isElement(child) && this.selection.has(child)) text += this.plain(child);
    }
    return text;
  }

  private picture(element: Element): string {
    const { attribs } = element;
    if (!this.options.includeImages || this.isHidden(element)) return '';
    const source = imageSource(attribs);
    const url = source === undefined ? undefined : this.options.resolve(source);
    if (url === undefined) return '';
    const alt = withoutInvisible(attribs.alt ?? '')
      .replace(/[[\]\s]+/g, ' ')
      .trim();
    return pictureAt(url, alt);
  }

  /** Looked for up to the first element with wanted text, which is seen. */
  private isHidden(element: Element): boolean {
    for (let at: AnyNode | null = element; isElement(at) && !this.wants(at); at = at.parent)
      if (this.options.hides(at)) return true;
    return false;
  }

  private sign(cell: Element): string {
    let text = '';
    walk(cell, (node) => {
      if (isText(node)) text += withoutInvisible(node.data);
      else if (isElement(node) && this.options.hides(node)) return false;
    });
    const sign = text.replace(/\s+/g, ' ').trim();
    return sign.length > signCharsMax ? '' : literal(sign);
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
  if (text === '') return '';
  // Trailing signs would be taken for the end of the heading.
  return `${'#'.repeat(level)} ${written(text).replace(/(^|\s)(#+)$/, '$1\\$2')}`;
}

function emphasised(text: string): string {
  return text === '' ? '' : written(`${strong[0]}${text}${strong[1]}`);
}

function ordinal(attribute: string | undefined): number | undefined {
  const number = Number.parseInt(attribute ?? '', 10);
  return number >= 0 ? number : undefined;
}

function indented(mark: string, body: string): string {
  if (body === '') return '';
  return mark + body.replace(/\n(?=[^\n])/g, `\n${' '.repeat(mark.length)}`);
}

/** Spaces at the ends of an inline element belong outside its marks. */
function around(inner: string, marked: string): string {
  return `${/^\s/.test(inner) ? ' ' : ''}${marked}${/\s$/.test(inner) ? ' ' : ''}`;
}

/** Task lists only: elsewhere a checkbox is a control of the page. */
function checkbox({ attribs, parent }: Element): string {
  const above = parent && isElement(parent) && parent.name !== 'li' ? parent.parent : parent;
  if (attribs.type !== 'checkbox' || !above || !isElement(above) || above.name !== 'li') return '';
  return 'checked' in attribs ? '[x] ' : '[ ] ';
}

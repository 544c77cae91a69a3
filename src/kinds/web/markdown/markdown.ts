// Renders the tree as Markdown (GFM): headings, lists, tables, code fences, quotes, links with absolute URLs.
// `Selection` decides which texts are included; elements without any selected text are skipped.
import { byName } from '../../../runtime/by-name.ts';
import { admonitionOf, type Admonition } from './admonitions.ts';
import { isBlockTag } from '../main-content/blocks.ts';
import { codeSpan, codeSpans, fence, isCodeLines } from './code.ts';
import { isElement, isText, walk, withoutInvisible } from '../read/dom.ts';
import type { AnyNode, Element, Text } from '../read/dom.ts';
import { renderFormula } from './formula.ts';
import { startsNewWord } from '../read/word-gaps.ts';
import { imageSource } from '../read/head.ts';
import {
  wrapTrimmed,
  checkbox,
  toStrong,
  hasHeading,
  heading,
  listItem,
  isControl,
  isPermalink,
  parseOrdinal,
  blockquote,
} from './parts.ts';
import {
  encodeCode,
  deleted,
  emphasis,
  hasLink,
  encodeLink,
  encodeText,
  toParagraph,
  encodeImage,
  strong,
  withoutMarkup,
  toMarkdown,
} from './literals.ts';
import type { Selection } from '../read/selection.ts';
import { renderTable } from './tables.ts';

interface MarkdownOptions {
  includeLinks: boolean;
  includeImages: boolean;
  resolve(href: string): string | undefined;
  /** Whether an element is invisible to readers. */
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
/** Deeper nesting is flattened to text, because no reader could see that structure. */
const maxNesting = 200;
/** Maximum number of pictures and formulas from one element without words. */
const maxUnspoken = 8;
const maxSignChars = 20;

class MarkdownWriter {
  private readonly selection: Selection;
  private readonly options: MarkdownOptions;
  private nesting = 0;
  private link: string | undefined;
  private before: Text | undefined;
  /** Titles of notes. They are written before the note text. */
  private readonly left = new Set<Element>();

  constructor(selection: Selection, options: MarkdownOptions) {
    this.selection = selection;
    this.options = options;
  }

  /** Renders block content: paragraphs and blocks separated by blank lines. */
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

  /** Renders inline content on one line, still encoded (see literals.ts). */
  private line(parent: AnyNode): string {
    return this.inline('children' in parent ? parent.children : [])
      .replace(/\s+/g, ' ')
      .trim();
  }

  title(caption: AnyNode): string {
    return toParagraph(this.line(caption));
  }

  /** A cell may contain only a symbol (✓, –). It has no words but has a meaning in its row. */
  cell(cell: Element): string {
    const text = this.line(cell) || this.sign(cell);
    return toMarkdown(text).replace(/\|/g, '\\|');
  }

  includes(node: AnyNode): boolean {
    return this.selection.has(node);
  }

  private isBlock(element: Element): boolean {
    if (isBlockTag(element.name)) return true;
    return this.selection.has(element) && this.selection.holdsBlocks(element);
  }

  private block(element: Element): string {
    const { name } = element;
    if (name === 'hr') return this.selection.all ? '---' : '';
    if (this.left.has(element) || isControl(element)) return '';
    if (!this.selection.has(element)) return toMarkdown(this.renderNonText(element));
    if (this.nesting > maxNesting) return toParagraph(this.line(element));
    this.nesting++;
    try {
      return this.wantedBlock(element);
    } finally {
      this.nesting--;
    }
  }

  private wantedBlock(element: Element): string {
    const { name } = element;
    const note = admonitionOf(element);
    const alert = note ? this.alert(note) : '';
    if (alert !== '') return alert;
    switch (name) {
      case 'h1':
      case 'h2':
      case 'h3':
      case 'h4':
      case 'h5':
      case 'h6':
        return heading(Number(name[1]), withoutMarkup(this.line(element), strong));
      case 'ul':
      case 'ol':
      case 'menu':
      case 'dir':
        return this.list(element);
      case 'li':
        return listItem('- ', this.flow(element));
      case 'pre':
        return fence(element, this.options.hides);
      case 'blockquote':
        return blockquote(this.flow(element));
      case 'table':
        return renderTable(element, this);
      case 'summary':
        // The heading of a collapsible section is still a heading.
        return hasHeading(element)
          ? this.flow(element)
          : toStrong(withoutMarkup(this.line(element), strong));
      case 'dt':
        return toStrong(withoutMarkup(this.line(element), strong));
      case 'a':
        return this.linkedFlow(element);
      default:
        return isCodeLines(element) ? fence(element, this.options.hides) : this.flow(element);
    }
  }

  /** A note title that is a page heading stays a heading, above the note. */
  private alert({ kind, title, label, body }: Admonition): string {
    const isHeading = title !== undefined && hasHeading(title);
    const above = isHeading ? this.block(title) : '';
    const first = title && label && !isHeading ? toStrong(this.line(title)) : '';
    if (title) this.left.add(title);
    const text = this.flow(body);
    if (title) this.left.delete(title);
    if (text === '') return '';
    const alert = blockquote([`[!${kind}]`, [first, text].filter(Boolean).join('\n\n')].join('\n'));
    return [above, alert].filter(Boolean).join('\n\n');
  }

  private list(element: Element): string {
    const ordered = element.name === 'ol';
    let number = parseOrdinal(element.attribs.start) ?? 1;
    const items: string[] = [];
    for (const child of element.children) {
      if (!isElement(child)) continue;
      const wanted = this.selection.has(child);
      const body = wanted ? this.flow(child) : toMarkdown(this.renderNonText(child));
      if (child.name === 'li') number = parseOrdinal(child.attribs.value) ?? number;
      const mark = ordered ? `${number}. ` : '- ';
      if (child.name === 'li') number++;
      if (body === '') continue;
      items.push(child.name === 'li' ? listItem(mark, body) : body);
    }
    const loose = items.some((item) => item.includes('\n\n'));
    return items.join(loose ? '\n\n' : '\n');
  }

  /** A link around blocks (a card): its first text run becomes the link. */
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
    return toParagraph(this.linked(tidy));
  }

  private linked(text: string): string {
    const { link } = this;
    if (link === undefined || text === '' || hasLink(text)) return text;
    this.link = undefined;
    return encodeLink(link, text);
  }

  private inline(nodes: readonly AnyNode[]): string {
    let text = '';
    for (const node of nodes) {
      if (isText(node)) {
        if (this.selection.has(node))
          text += this.apart(node) + encodeText(withoutInvisible(node.data).replace(/\s+/g, ' '));
        else if (/\s/.test(node.data)) text += ' ';
      } else if (isElement(node)) {
        const inner = this.inlineElement(node);
        // 10 to the 6th power must not become 106.
        const isPower = node.name === 'sup' && /^[-−+]?\d{1,4}$/.test(inner.trim());
        text += isPower && /[\p{L}\p{N})]$/u.test(text) ? `^${inner.trim()}` : inner;
      }
    }
    return text;
  }

  /** Adds a space where only styles separate this text from the word before. */
  private apart(text: Text): string {
    const { before } = this;
    this.before = text;
    return before && startsNewWord(before, text) ? ' ' : '';
  }

  private inlineElement(element: Element): string {
    const { name, attribs } = element;
    if (name === 'br') return '\n';
    if (name === 'img') return this.picture(element);
    if (name === 'input') return checkbox(element);
    if (this.left.has(element) || isControl(element)) return '';
    if (!this.selection.has(element)) {
      const found = this.renderNonText(element);
      return name === 'a' && found !== '' ? this.anchor(element, found) : found;
    }
    if (this.nesting > maxNesting) return encodeText(this.plain(element));
    if (name === 'pre')
      return ` ${codeSpans(element, this.options.hides).map(encodeCode).join('<br>')} `;
    this.nesting++;
    const inner = codeTags.has(name) ? this.plain(element) : this.inline(element.children);
    this.nesting--;
    if (isBlockTag(name)) return ` ${inner} `;
    const text = inner.trim();
    if (text === '') return inner === '' ? '' : ' ';
    if (codeTags.has(name)) return wrapTrimmed(inner, encodeCode(codeSpan(text)));
    if (name === 'a' && isPermalink(attribs.href, text)) return '';
    if (name === 'a') return wrapTrimmed(inner, this.anchor(element, text));
    if (name === 'rt') return `(${text})`;
    const mark = marks[name];
    if (mark === undefined || text.includes('\n')) return inner;
    return wrapTrimmed(inner, `${mark[0]}${text}${mark[1]}`);
  }

  private anchor({ attribs }: Element, text: string): string {
    if (!this.options.includeLinks || attribs.href === undefined || hasLink(text)) return text;
    const url = /^(?:#|javascript:)/i.test(attribs.href)
      ? undefined
      : this.options.resolve(attribs.href);
    return url === undefined ? text : encodeLink(url, text);
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
    return encodeImage(url, alt);
  }

  /** Searches up to the first element with selected text. */
  private isHidden(element: Element): boolean {
    for (let at: AnyNode | null = element; isElement(at) && !this.includes(at); at = at.parent)
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
    return sign.length > maxSignChars ? '' : encodeText(sign);
  }

  /** Returns pictures and formulas of an element without text inside selected content. */
  private renderNonText(element: Element): string {
    const found: string[] = [];
    walk(element, (node) => {
      if (!isElement(node)) return false;
      const isMath = node.name === 'math';
      if (found.length === maxUnspoken || (!isMath && this.selection.hasText(node))) return false;
      const text = isMath ? renderFormula(node) : node.name === 'img' ? this.picture(node) : '';
      if (text !== '') found.push(text);
      return !isMath;
    });
    return found.join('\n\n');
  }
}

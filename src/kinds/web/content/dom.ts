// The parsed page: one parse for everything that reads it, small helpers over domhandler nodes,
// and what counts as hidden. Traversals are loops over sibling links: a page may be nested deeper
// than any stack.
import { parseDocument, type createDocumentStream, type DomHandlerOptions } from 'htmlparser2';

export type Document = ReturnType<typeof parseDocument>;
export type Element = Parameters<NonNullable<Parameters<typeof createDocumentStream>[2]>>[0];
export type ChildNode = Document['children'][number];
export type AnyNode = Document | ChildNode;
export type Text = Extract<ChildNode, { nodeType: 3 }>;

/** Deeper nodes are left out: no honest page comes near it, and cost per node grows with depth. */
export const depthMax = 512;

export function parseHtml(html: string, options: DomHandlerOptions = {}): Document {
  return parseDocument(html, { decodeEntities: true, ...options });
}

export function isElement(node: AnyNode | null | undefined): node is Element {
  const type: string | undefined = node?.type;
  return type === 'tag' || type === 'script' || type === 'style';
}

export function isText(node: AnyNode): node is Text {
  const type: string = node.type;
  return type === 'text';
}

/**
 * Calls `enter` for every node in document order; false leaves its children out. `leave` follows
 * the children.
 */
export function walk(
  root: AnyNode,
  enter: (node: AnyNode, depth: number) => boolean | void,
  leave?: (node: Element) => void,
): void {
  let node: AnyNode = root;
  let depth = 0;
  for (;;) {
    const into = enter(node, depth) !== false && depth < depthMax;
    const first: AnyNode | undefined = into && 'children' in node ? node.children[0] : undefined;
    if (first) {
      node = first;
      depth++;
      continue;
    }
    for (;;) {
      if (isElement(node)) leave?.(node);
      if (node === root) return;
      if (node.next) {
        node = node.next;
        break;
      }
      node = node.parent as AnyNode;
      depth--;
    }
  }
}

export function elements(root: AnyNode, tag: string): Element[] {
  const found: Element[] = [];
  walk(root, (node) => {
    if (isElement(node) && node.name === tag) found.push(node);
  });
  return found;
}

export function rawText(root: AnyNode): string {
  const parts: string[] = [];
  walk(root, (node) => {
    if (isText(node)) parts.push(node.data);
  });
  return parts.join('');
}

export function tidy(text: string): string {
  return withoutInvisible(text).replace(/\s+/g, ' ').trim();
}

// Soft hyphens, zero-width, direction and other format characters; noncharacters; tags and variation selectors in rows.
const invisible =
  /[\u00AD\u200B-\u200F\u202A-\u202E\u2060-\u206F\uFDD0-\uFDEF\uFEFF]|(?<=[\uFE00-\uFE0F])[\uFE00-\uFE0F]|\uDB40[\uDC00-\uDDEF]/g;
// eslint-disable-next-line no-control-regex -- only asks whether the slow path is needed
const plain = /^[\x00-\xAC\xAE-\u1FFF]*$/;

/**
 * Zero-width, direction and tag characters carry text that no reader sees (a way to hide
 * instructions). Joiners stay where they are part of how a word or an emoji is written.
 */
export function withoutInvisible(text: string): string {
  if (plain.test(text)) return text;
  return text.replace(invisible, (char, at: number) => (isJoiner(char, text, at) ? char : ''));
}

const joiningScripts =
  'Arabic Syriac Mongolian Nko Devanagari Bengali Gurmukhi Gujarati Oriya Tamil Telugu Kannada Malayalam Sinhala Khmer Myanmar Tibetan';
const joining = `[${joiningScripts.replace(/\w+/g, String.raw`\p{Script=$&}`).replaceAll(' ', '')}]`;
const joinedWord = new RegExp(`^${joining}[\\u200C\\u200D]${joining}`, 'u');
const joinedEmoji =
  /^(?:\p{Extended_Pictographic}|\p{Emoji_Modifier}|\uFE0F)\u200D\p{Extended_Pictographic}/u;

function isJoiner(char: string, text: string, at: number): boolean {
  if (char !== '\u200C' && char !== '\u200D') return false;
  const isPair = at > 1 && text.charCodeAt(at - 1) >> 10 === 0xdc00 >> 10;
  const near = text.slice(at - (isPair ? 2 : 1), at + 3);
  return joinedWord.test(near) || joinedEmoji.test(near);
}

// Small helpers for domhandler nodes. Traversals are loops over sibling links, because a page may be nested deeper than the call stack allows.
import type { createDocumentStream, parseDocument } from 'htmlparser2';

export type Document = ReturnType<typeof parseDocument>;
export type Element = Parameters<NonNullable<Parameters<typeof createDocumentStream>[2]>>[0];
export type ChildNode = Document['children'][number];
export type AnyNode = Document | ChildNode;
export type Text = Extract<ChildNode, { nodeType: 3 }>;

/** Deeper nodes are dropped. Real pages stay far below this, and the cost per node grows with depth. */
const maxDepth = 512;

export function isElement(node: AnyNode | null | undefined): node is Element {
  const type: string | undefined = node?.type;
  return type === 'tag' || type === 'script' || type === 'style';
}

export function isText(node: AnyNode): node is Text {
  const type: string = node.type;
  return type === 'text';
}

/**
 * Calls `enter` for every node in document order; returning false skips the children. `leave` runs after the
 * children.
 */
export function walk(
  root: AnyNode,
  enter: (node: AnyNode, depth: number) => boolean | void,
  leave?: (node: Element) => void,
): void {
  let node: AnyNode = root;
  let depth = 0;
  for (;;) {
    const into = enter(node, depth) !== false && depth < maxDepth;
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

// Soft hyphens, zero-width, direction and other format characters; noncharacters; sequences of tags and
// variation selectors.
const invisible =
  /[\u00AD\u200B-\u200F\u202A-\u202E\u2060-\u206F\uFDD0-\uFDEF\uFEFF]|(?<=[\uFE00-\uFE0F])[\uFE00-\uFE0F]|\uDB40[\uDC00-\uDDEF]/g;
// eslint-disable-next-line no-control-regex -- only asks whether the slow path is needed
const plain = /^[\x00-\xAC\xAE-\u1FFF]*$/;

/**
 * Removes zero-width, direction and tag characters. They carry text that no reader sees, which is a way to
 * hide instructions. Joiners stay where a word or an emoji needs them.
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

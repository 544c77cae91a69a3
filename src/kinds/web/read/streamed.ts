// Moves streamed parts of a page to their place. React sends a slow part after the page, in a hidden element
// (`<div hidden id="S:1">`), and a script moves it to its placeholder (`<template id="B:1">` or "P:1"). Marko
// does the same (`<div id="af1" style="display:none">`, placeholder "afph1"). A reader sees the moved part.
import {
  isElement,
  walk,
  type AnyNode,
  type ChildNode,
  type Document,
  type Element,
} from './dom.ts';

const partOf = [/^(.*)S:([0-9a-f]+)$/, /^af(?!ph)(\w*?)(\d+)$/];
const placeOf = [/^(.*)[BP]:([0-9a-f]+)$/, /^afph(\w*?)(\d+)$/];

export function mayBeStreamed(html: string): boolean {
  return /\bid=["']?(?:[^"'\s>]*S:[0-9a-f]|af\w*\d)/.test(html);
}

export function placeStreamed(root: Document): void {
  const parts = new Map<string, Element>();
  const places = new Map<string, Element>();
  walk(root, (node) => {
    if (!isElement(node) || node.attribs.id === undefined) return;
    const key = isPart(node) ? keyOf(node.attribs.id, partOf) : undefined;
    if (key !== undefined) parts.set(key, node);
    const place = isPlace(node) ? keyOf(node.attribs.id, placeOf) : undefined;
    if (place !== undefined) places.set(place, node);
  });
  for (const [key, part] of parts) {
    const place = places.get(key);
    if (place && !isInside(place, part)) movePart(part, place);
    else if (part.attribs.style !== undefined) part.attribs.style = '';
  }
}

function isPart({ attribs }: Element): boolean {
  return 'hidden' in attribs || /^display:\s*none;?$/.test(attribs.style ?? '');
}

function isPlace({ name }: Element): boolean {
  return name === 'template' || name === 'noscript' || name === 'span';
}

function keyOf(id: string, patterns: readonly RegExp[]): string | undefined {
  for (const pattern of patterns) {
    const match = pattern.exec(id);
    if (match) return `${match[1]}:${match[2]}`;
  }
  return undefined;
}

function movePart(part: Element, place: Element): void {
  const { parent } = place;
  if (!parent) return;
  removeFallback(place);
  const at = parent.children.indexOf(place);
  const children = part.children;
  part.children = [];
  setChildren(parent, parent.children.toSpliced(at, 1, ...children));
}

/** Removes what the page shows until the part has arrived: everything up to the comment `/$`. */
function removeFallback(place: Element): void {
  const siblings = place.parent!.children;
  const at = siblings.indexOf(place);
  if (!isMark(siblings[at - 1], /^\$[?~]?$/)) return;
  let depth = 1;
  let end = at + 1;
  for (; end < siblings.length; end++) {
    if (isMark(siblings[end], /^\$/)) depth++;
    else if (isMark(siblings[end], /^\/\$/) && --depth === 0) break;
  }
  if (depth === 0) setChildren(place.parent!, siblings.toSpliced(at + 1, end - at - 1));
}

function isMark(node: ChildNode | undefined, pattern: RegExp): boolean {
  const type: string | undefined = node?.type;
  return type === 'comment' && node !== undefined && 'data' in node && pattern.test(node.data);
}

function setChildren(parent: NonNullable<Element['parent']>, children: ChildNode[]): void {
  parent.children = children;
  children.forEach((child, i) => {
    child.parent = parent;
    child.prev = children[i - 1] ?? null;
    child.next = children[i + 1] ?? null;
  });
}

function isInside(node: AnyNode, upper: Element): boolean {
  for (let at: AnyNode | null = node; at; at = at.parent) if (at === upper) return true;
  return false;
}

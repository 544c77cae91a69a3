// The wanted part of a page: chosen texts and every element above them.
import type { Block } from './blocks.ts';
import { isBlockTag } from './blocks.ts';
import { isElement } from './dom.ts';
import type { AnyNode, Element } from './dom.ts';

export class Selection {
  /** Everything visible was chosen, so separators mean something too. */
  readonly all: boolean;
  private readonly wanted = new Set<AnyNode>();
  private readonly withText = new Set<AnyNode>();
  private readonly withBlocks = new Set<AnyNode>();

  constructor(blocks: readonly Block[], chosen: readonly Block[]) {
    this.all = blocks.length === chosen.length;
    for (const block of blocks) climb(block, this.withText);
    for (const block of chosen) {
      climb(block, this.wanted);
      this.markBlocks(block);
    }
  }

  has(node: AnyNode): boolean {
    return this.wanted.has(node);
  }

  /** Whether the element has any visible text, wanted or not. */
  hasText(element: Element): boolean {
    return this.withText.has(element);
  }

  /** An inline element (link, span, custom tag) around wanted block elements. */
  holdsBlocks(element: Element): boolean {
    return this.withBlocks.has(element);
  }

  private markBlocks({ place }: Block): void {
    let at: AnyNode | null = place.element;
    if (!isBlockTag(place.element.name)) return;
    at = at.parent;
    while (at && isElement(at) && !this.withBlocks.has(at)) {
      this.withBlocks.add(at);
      at = at.parent;
    }
  }
}

function climb(block: Block, set: Set<AnyNode>): void {
  for (const node of block.nodes) {
    let at: AnyNode | null = node;
    while (at && !set.has(at)) {
      set.add(at);
      at = at.parent;
    }
  }
}

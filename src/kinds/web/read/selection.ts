// The selected part of a page: the selected texts and all their ancestors.
import type { Block } from '../main-content/blocks.ts';
import { isBlockTag } from '../main-content/blocks.ts';
import { isElement } from './dom.ts';
import type { AnyNode, Element } from './dom.ts';

export class Selection {
  /** Everything visible is selected, so separators are kept as well. */
  readonly all: boolean;
  private readonly wanted = new Set<AnyNode>();
  private readonly withText = new Set<AnyNode>();
  private readonly withBlocks = new Set<AnyNode>();

  constructor(blocks: readonly Block[], chosen: readonly Block[]) {
    this.all = blocks.length === chosen.length;
    for (const block of blocks) addAncestors(block, this.withText);
    for (const block of chosen) {
      addAncestors(block, this.wanted);
      this.markBlocks(block);
    }
  }

  has(node: AnyNode): boolean {
    return this.wanted.has(node);
  }

  /** Whether the element has any visible text, selected or not. */
  hasText(element: Element): boolean {
    return this.withText.has(element);
  }

  /** An inline element (link, span, custom tag) around selected block elements. */
  holdsBlocks(element: Element): boolean {
    return this.withBlocks.has(element);
  }

  private markBlocks({ ancestor }: Block): void {
    let at: AnyNode | null = ancestor.element;
    if (!isBlockTag(ancestor.element.name)) return;
    at = at.parent;
    while (at && isElement(at) && !this.withBlocks.has(at)) {
      this.withBlocks.add(at);
      at = at.parent;
    }
  }
}

function addAncestors(block: Block, set: Set<AnyNode>): void {
  for (const node of block.nodes) {
    let at: AnyNode | null = node;
    while (at && !set.has(at)) {
      set.add(at);
      at = at.parent;
    }
  }
}

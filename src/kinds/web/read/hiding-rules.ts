// Matches the hiding and showing rules of a page's style elements by tag, class, id, attribute and ancestors.
// Rules that depend on the screen (media queries), a state (:hover) or a sibling are ignored, because they
// apply only sometimes.
import type { Element } from './dom.ts';

const maxRules = 5000;
const maxSelectorChars = 200;
/** Maximum number of ancestors checked per rule. */
const maxAbove = 60;

interface Compound {
  tag?: string;
  id?: string;
  classes: string[];
  /** With a value, or only its presence. */
  attributes: [name: string, value: string | undefined][];
  /** True when the next compound to the left must match the parent, not any ancestor. */
  isChild: boolean;
}

interface Rule {
  /** From right to left. */
  compounds: Compound[];
  /** Cascade order: the more specific rule wins, then the later one. */
  weight: number;
}

export class HidingRules {
  private readonly hiding = new RuleIndex();
  private readonly showing = new RuleIndex();
  private order = 0;

  add(selector: string, isHiding: boolean): void {
    if (++this.order > maxRules) return;
    const compounds = compoundsOf(selector);
    if (!compounds) return;
    const weight = specificity(compounds) * maxRules + this.order;
    (isHiding ? this.hiding : this.showing).add({ compounds, weight });
  }

  hide(element: Element): boolean {
    const hidden = this.hiding.weightOf(element);
    return hidden > 0 && this.showing.weightOf(element) < hidden;
  }
}

class RuleIndex {
  /** Rules indexed by their rightmost compound. */
  private readonly rules = new Map<string, Rule[]>();

  add(rule: Rule): void {
    const key = keyOf(rule.compounds[0]!);
    const known = this.rules.get(key);
    if (known) known.push(rule);
    else this.rules.set(key, [rule]);
  }

  /** Returns the weight of the strongest matching rule; 0 for none. */
  weightOf(element: Element): number {
    if (this.rules.size === 0) return 0;
    const { id, class: names } = element.attribs;
    let most = id === undefined ? 0 : this.heaviest(`#${id}`, element);
    for (const name of names?.split(/\s+/) ?? [])
      most = Math.max(most, this.heaviest(`.${name}`, element));
    return most;
  }

  private heaviest(key: string, element: Element): number {
    let most = 0;
    for (const { compounds, weight } of this.rules.get(key) ?? [])
      if (weight > most && matches(compounds, element)) most = weight;
    return most;
  }
}

function specificity(compounds: readonly Compound[]): number {
  let sum = 0;
  for (const { id, classes, attributes, tag } of compounds)
    sum += (id ? 100 : 0) + 10 * (classes.length + attributes.length) + (tag ? 1 : 0);
  return sum;
}

const part = /^([a-z][\w-]*)?((?:[.#][\w-]+|\[[\w-]+(?:=(?:"[^"]*"|'[^']*'|[\w-]+))?\])*)$/i;
const pieces = /([.#])([\w-]+)|\[([\w-]+)(?:=["']?([^"'\]]*)["']?)?\]/g;

/** Returns undefined for selectors that are not supported. */
function compoundsOf(selector: string): Compound[] | undefined {
  if (selector.length > maxSelectorChars) return undefined;
  const words = selector
    .trim()
    .replace(/\s*>\s*/g, ' >')
    .split(/\s+/);
  const compounds: Compound[] = [];
  for (const word of words.toReversed()) {
    const isChild = word.startsWith('>');
    const match = part.exec(isChild ? word.slice(1) : word);
    if (!match || match[0] === '') return undefined;
    const compound: Compound = { classes: [], attributes: [], isChild };
    if (match[1] !== undefined) compound.tag = match[1].toLowerCase();
    for (const [, mark, name, attribute, value] of match[2]!.matchAll(pieces)) {
      if (mark === '#') compound.id = name!;
      else if (mark === '.') compound.classes.push(name!);
      else compound.attributes.push([attribute!.toLowerCase(), value]);
    }
    compounds.push(compound);
  }
  // A rule that hides every element of a tag or with an attribute is a loading screen that scripts remove.
  const { id, classes } = compounds[0]!;
  return id === undefined && classes.length === 0 ? undefined : compounds;
}

function keyOf({ id, classes }: Compound): string {
  return id === undefined ? `.${classes[0]!}` : `#${id}`;
}

function matches(compounds: readonly Compound[], element: Element): boolean {
  if (!fits(compounds[0]!, element)) return false;
  let at: Element | undefined = element;
  let looked = 0;
  for (let i = 1; i < compounds.length; i++) {
    const { isChild } = compounds[i - 1]!;
    do {
      at = parentOf(at);
      if (!at || ++looked > maxAbove) return false;
    } while (!isChild && !fits(compounds[i]!, at));
    if (!fits(compounds[i]!, at)) return false;
  }
  return true;
}

function fits({ tag, id, classes, attributes }: Compound, { name, attribs }: Element): boolean {
  if (tag !== undefined && tag !== name) return false;
  if (id !== undefined && id !== attribs.id) return false;
  if (classes.length > 0) {
    const own = attribs.class?.split(/\s+/) ?? [];
    if (!classes.every((one) => own.includes(one))) return false;
  }
  return attributes.every(([one, value]) =>
    value === undefined ? one in attribs : attribs[one] === value,
  );
}

function parentOf({ parent }: Element): Element | undefined {
  return parent && 'attribs' in parent ? parent : undefined;
}

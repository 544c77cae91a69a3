// What a reader of the page would not see: silent elements, hidden attributes, hiding styles
// inline and in the page's own style elements. Hidden text is where instructions to a model are
// put, so the doubtful goes out, but panels that a visible control opens (tabs, answers of an
// FAQ) and text that fades in are content.
import { isElement, isText, rawText, walk } from './dom.ts';
import type { AnyNode, Element } from './dom.ts';
import { HidingRules } from './hiding-rules.ts';

/** Elements whose text is never part of what a page says. */
const silent = new Set(
  (
    'script style iframe object embed svg canvas math select datalist textarea input audio video ' +
    'map head link meta base param source track progress meter rp noframes applet frameset'
  ).split(' '),
);

/**
 * A noscript of this size is the page for readers without scripts, not a tracking pixel or a
 * notice.
 */
const noscriptCharsMin = 400;

function isSilent(element: Element): boolean {
  const { name } = element;
  if (name === 'template') return !('shadowrootmode' in element.attribs);
  if (name === 'noscript') return !longerThan(element, noscriptCharsMin);
  return silent.has(name);
}

/** What one page hides; made once per page. */
export class Visibility {
  private readonly rules: HidingRules;
  private readonly opened: ReadonlySet<string>;
  /** The page's main element, or all of it, and what a part must hold or be in to be the page. */
  private readonly core: AnyNode;
  private readonly mark: Element | undefined;
  private coreChars: number | undefined;

  constructor(root: AnyNode) {
    const styles: Element[] = [];
    const opened = new Set<string>();
    let main: Element | undefined;
    let title: Element | undefined;
    walk(root, (node) => {
      if (!isElement(node)) return;
      if (node.name === 'style') styles.push(node);
      else if (node.name === 'main' || node.attribs.role === 'main') main ??= node;
      else if (node.name === 'h1') title ??= node;
      addOpened(node, opened);
    });
    this.core = main ?? root;
    this.mark = main ?? title;
    this.rules = hidingRules(styles);
    this.opened = opened;
  }

  /** Whether this element and all below it are left out. */
  hides(element: Element): boolean {
    if (isSilent(element)) return true;
    const { attribs } = element;
    if (attribs.style !== undefined && this.styledAway(element, attribs.style)) return true;
    if ('hidden' in attribs && attribs.hidden !== 'until-found') return !this.isShown(element);
    if (attribs['aria-hidden'] === 'true') return !isSeenLink(element) && !this.isShown(element);
    if (element.name === 'dialog' && !('open' in attribs)) return true;
    // A sheet that hides a large part of the page is undone by its scripts.
    return (
      this.rules.hide(element) && !this.isShown(element) && !longerThan(element, fadedCharsMax)
    );
  }

  private styledAway(element: Element, style: string): boolean {
    if (offScreen.test(style) || isPaintedOver(style)) return true;
    if (notDisplayed.test(style)) return !this.isShown(element);
    if (shrunk.test(style)) return !/transition|animation/i.test(style);
    if (!transparent.test(style)) return false;
    if (/absolute|fixed|pointer-events\s*:\s*none|z-index\s*:\s*-/i.test(style)) return true;
    if (/transform|transition|animation|translate/i.test(style)) return false;
    return !longerThan(element, fadedCharsMax);
  }

  private isShown(element: Element): boolean {
    return this.isPanel(element) || this.isPage(element);
  }

  /** Next to all the page has to say: its scripts show it once they run. */
  private isPage(element: Element): boolean {
    const { core, mark } = this;
    if (!mark || (!isAbove(element, mark) && !isAbove(mark, element))) return false;
    this.coreChars ??= spokenChars(core);
    return spokenChars(element) > Math.max(pageShare * this.coreChars, fadedCharsMax);
  }

  /** Opened by something a reader can see and press. */
  private isPanel(element: Element): boolean {
    const { id, role, class: names } = element.attribs;
    if (id !== undefined && this.opened.has(id)) return true;
    return role === 'tabpanel' || (names !== undefined && panelName.test(names));
  }
}

/** Share of the main element's text from which on a long hidden part is the page itself. */
const pageShare = 0.9;

/** A link elsewhere that only readers aloud are to skip: it stands on the page for all to see. */
function isSeenLink({ name, attribs }: Element): boolean {
  return name === 'a' && attribs.href !== undefined && !attribs.href.startsWith('#');
}

const noSize = String.raw`font-size\s*:\s*(?:0(?:\.0+)?(?:px|em|rem|pt|%|vw)?|[01](?:\.\d+)?p[xt])\s*(?:;|!|$)`;
const farAway = String.raw`(?:text-indent|left|top|margin-left)\s*:\s*-(?:\d{4,}px|\d{3,}(?:em|rem|vw|vh))`;
const aside = String.raw`(?:text-indent|left|top)\s*:\s*-\d{3,}%`;
const clipped = String.raw`clip\s*:\s*rect\(\s*0|clip-path\s*:\s*(?:inset\(\s*(?:50|100)%|circle\(\s*0)`;
const folded = String.raw`(?:max-)?(?:height|width)\s*:\s*0(?:px)?\s*;.*overflow\s*:\s*hidden`;
const offScreen = anyOf(noSize, farAway, aside, clipped, folded);
const shrunk = anyOf(String.raw`transform\s*:\s*scale[xy]?\(\s*0(?:\.0+)?\s*[,)]`);
const notShown = [String.raw`display\s*:\s*none`, String.raw`visibility\s*:\s*(?:hidden|collapse)`];
const notDisplayed = anyOf(...notShown);
const transparent = /(?:^|[;\s])opacity\s*:\s*0(?:\.0+)?\s*(?:;|!|$)/i;
/** Hidden and longer than this: perhaps a page that a script shows, not a hidden remark. */
const fadedCharsMax = 1000;
const panelName =
  /accordion|collaps|tab-?(?:panel|pane|content)|faq|answer|expand|toggle-?content/i;

/** One of these declarations, at the start of one. */
function anyOf(...declarations: string[]): RegExp {
  return new RegExp(String.raw`(?:^|[;\s])(?:${declarations.join('|')})`, 'i');
}

/** Ids of what this element opens when pressed. */
function addOpened({ name, attribs }: Element, ids: Set<string>): void {
  const controls = attribs['aria-controls'];
  if (controls !== undefined) for (const id of controls.split(/\s+/)) ids.add(id);
  const target = attribs['data-target'] ?? attribs['data-bs-target'];
  if (target?.startsWith('#')) ids.add(target.slice(1));
  if (name === 'a' && attribs.href?.startsWith('#')) ids.add(attribs.href.slice(1));
}

const colour = /(?:^|[;\s])(background-)?(?:color|background)\s*:\s*([^;!]+)/gi;

/** Text in the colour of its own ground, or in none. Letters that show a picture are neither. */
function isPaintedOver(style: string): boolean {
  if (!/colo/i.test(style) || /background-clip/i.test(style)) return false;
  let ink = '';
  let ground = '';
  for (const [whole, isGround, value] of style.matchAll(colour)) {
    const plain = value!.toLowerCase().replace(/\s+/g, '');
    if (isGround !== undefined || /background/i.test(whole)) ground = plain;
    else ink = plain;
  }
  return (
    ink === 'transparent' || /^rgba\(.*,0(?:\.0+)?\)$/.test(ink) || (ink !== '' && ink === ground)
  );
}

const styleCharsMax = 200_000;
const rule = /([^{}]+)\{([^{}]*)\}/g;
const hidingBody = anyOf(...notShown, noSize, farAway);
const showingBody = anyOf(
  String.raw`display\s*:\s*(?!none)[a-z]`,
  String.raw`visibility\s*:\s*visible`,
);

function hidingRules(styles: readonly Element[]): HidingRules {
  const rules = new HidingRules();
  for (const style of styles) {
    if (style.attribs.media !== undefined && !/all|screen/i.test(style.attribs.media)) continue;
    const css = rawText(style).slice(0, styleCharsMax);
    if (!/none|hidden|collapse|font-size|indent|left|top/.test(css)) continue;
    for (const [, selectors, body] of withoutAtRules(css).matchAll(rule)) {
      const isHiding = hidingBody.test(body!);
      if (!isHiding && !showingBody.test(body!)) continue;
      for (const selector of selectors!.split(',')) rules.add(selector, isHiding);
    }
  }
  return rules;
}

/** Leaves out `@media … { … }` and its kin: what they hide is hidden only sometimes. */
function withoutAtRules(css: string): string {
  const parts: string[] = [];
  let at = 0;
  const text = css.replace(/\/\*[\s\S]*?\*\//g, '');
  while (at < text.length) {
    const start = text.indexOf('@', at);
    if (start < 0) break;
    parts.push(text.slice(at, start));
    at = endOfAtRule(text, start);
  }
  parts.push(text.slice(at));
  return parts.join('');
}

function endOfAtRule(text: string, start: number): number {
  let depth = 0;
  for (let i = start; i < text.length; i++) {
    const char = text.charCodeAt(i);
    if (char === 59 && depth === 0) return i + 1;
    if (char === 123) depth++;
    if (char === 125 && --depth <= 0) return i + 1;
  }
  return text.length;
}

function isAbove(upper: AnyNode, lower: AnyNode): boolean {
  let at: AnyNode | null = lower;
  while (at && at !== upper) at = at.parent;
  return at === upper;
}

/** Characters of text, scripts and the like left out. */
function spokenChars(root: AnyNode): number {
  let chars = 0;
  walk(root, (node) => {
    if (isText(node)) chars += node.data.trim().length;
    else if (isElement(node) && (silent.has(node.name) || node.name === 'template')) return false;
  });
  return chars;
}

function longerThan(element: Element, chars: number): boolean {
  let length = 0;
  walk(element, (node) => {
    if (length > chars) return false;
    if (isText(node)) length += node.data.trim().length;
  });
  return length > chars;
}

// Decides what a reader of the page does not see: non-text elements, hidden attributes, and hiding styles,
// inline or in the page's style elements. Hidden text can contain instructions to a model, so doubtful cases
// are removed. Panels that a visible control opens (tabs, FAQ answers) and text that fades in are content.
import { isElement, isText, rawText, walk } from './dom.ts';
import type { AnyNode, Element } from './dom.ts';
import { HidingRules } from './hiding-rules.ts';

/** Elements whose text is never page content. */
const nonTextTags = new Set(
  (
    'script style iframe object embed svg canvas math select datalist textarea input audio video ' +
    'map head title link meta base param source track progress meter rp noframes applet frameset'
  ).split(' '),
);

/**
 * A noscript element of this size is a page for readers without scripts, not a tracking pixel or a notice.
 */
const minNoscriptChars = 400;

/** An element without text content: scripts, styles, controls, pictures. */
export function isNonText(element: Element): boolean {
  const { name } = element;
  if (name === 'template') return !('shadowrootmode' in element.attribs);
  if (name === 'noscript') return !longerThan(element, minNoscriptChars);
  return nonTextTags.has(name);
}

/** The visibility rules of one page. Created once per page. */
export class Visibility {
  private readonly rules: HidingRules;
  private readonly opened: ReadonlySet<string>;
  /**
   * The main element (or the whole page), and the conditions for a hidden part to count as the page itself.
   */
  private readonly core: AnyNode;
  private readonly marks: readonly Element[];
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
      addControlledIds(node, opened);
    });
    this.core = main ?? root;
    this.marks = [main, title].filter((one) => one !== undefined);
    this.rules = hidingRules(styles);
    this.opened = opened;
  }

  /** Whether to leave out this element and everything below it. */
  hides(element: Element): boolean {
    if (isNonText(element)) return true;
    const { attribs } = element;
    if (attribs.style !== undefined && this.isHiddenByStyle(element, attribs.style)) return true;
    if ('hidden' in attribs && attribs.hidden !== 'until-found') return !this.isShown(element);
    if (attribs['aria-hidden'] === 'true')
      return !isVisibleLink(element) && !isSlide(element) && !this.isShown(element);
    if (element.name === 'dialog' && !('open' in attribs)) return true;
    // When a style sheet hides a large part of the page, scripts show it again.
    return (
      this.rules.hide(element) && !this.isShown(element) && !longerThan(element, maxFadedChars)
    );
  }

  private isHiddenByStyle(element: Element, style: string): boolean {
    if (offScreen.test(style)) return !isSlider(element, style);
    if (hasInvisibleColour(style)) return true;
    if (isFolded.test(style)) return !this.isPanel(element);
    if (notDisplayed.test(style)) return !this.isShown(element);
    if (shrunk.test(style)) return !/transition|animation/i.test(style);
    if (!transparent.test(style)) return false;
    if (/absolute|fixed|pointer-events\s*:\s*none|z-index\s*:\s*-/i.test(style)) return true;
    if (/transform|transition|animation|translate/i.test(style)) return false;
    return !longerThan(element, maxFadedChars);
  }

  private isShown(element: Element): boolean {
    return this.isPanel(element) || this.isPage(element);
  }

  /** Almost all of the page's text. Its scripts show it when they run. */
  private isPage(element: Element): boolean {
    const { core, marks } = this;
    if (!marks.some((mark) => isAbove(element, mark) || isAbove(mark, element))) return false;
    this.coreChars ??= countTextChars(core);
    return countTextChars(element) > Math.max(pageShare * this.coreChars, maxFadedChars);
  }

  /** A visible control opens this element, or the one around it. */
  private isPanel(element: Element): boolean {
    const { parent } = element;
    return this.isNamedPanel(element) || (isElement(parent) && this.isNamedPanel(parent));
  }

  private isNamedPanel({ attribs }: Element): boolean {
    const { id = '', role, class: names = '', 'data-testid': testId = '' } = attribs;
    return this.opened.has(id) || role === 'tabpanel' || panelName.test(`${names} ${id} ${testId}`);
  }
}

/** A long hidden part with at least this share of the main element's text is the page itself. */
const pageShare = 0.9;

const sliderName = /slick|swiper|carousel|slider|slides?\b|splide|glide|flickity/i;

/** The moving part of a slider is wider than the page and starts beyond its edge. */
function isSlider({ attribs }: Element, style: string): boolean {
  return sliderName.test(attribs.class ?? '') && !farOff.test(style);
}

/** A slide that is not the current one. Copies of slides at both ends stay hidden. */
function isSlide({ attribs, parent }: Element): boolean {
  const names = `${attribs.class ?? ''} ${isElement(parent) ? (parent.attribs.class ?? '') : ''}`;
  return sliderName.test(names) && !/clone|duplicate/i.test(names);
}

/** A link to another page that is hidden only from screen readers. It is visible on the page. */
function isVisibleLink({ name, attribs }: Element): boolean {
  return name === 'a' && attribs.href !== undefined && !attribs.href.startsWith('#');
}

const noSize = String.raw`font-size\s*:\s*(?:0(?:\.0+)?(?:px|em|rem|pt|%|vw)?|[01](?:\.\d+)?p[xt])\s*(?:;|!|$)`;
const farAway = String.raw`(?:text-indent|left|top|margin-left)\s*:\s*-(?:\d{4,}px|\d{3,}(?:em|rem|vw|vh))`;
const aside = String.raw`(?:text-indent|left|top)\s*:\s*-\d{3,}%`;
const clipped = String.raw`clip\s*:\s*rect\(\s*0|clip-path\s*:\s*(?:inset\(\s*(?:50|100)%|circle\(\s*0)`;
const folded = String.raw`(?:max-)?(?:height|width)\s*:\s*0(?:px)?\s*;.*overflow\s*:\s*hidden`;
const offScreen = declarationPattern(noSize, farAway, aside, clipped);
const isFolded = declarationPattern(folded);
const farOff = declarationPattern(noSize, farAway, clipped);
const shrunk = declarationPattern(String.raw`transform\s*:\s*scale[xy]?\(\s*0(?:\.0+)?\s*[,)]`);
const notShown = [String.raw`display\s*:\s*none`, String.raw`visibility\s*:\s*(?:hidden|collapse)`];
const notDisplayed = declarationPattern(...notShown);
const transparent = /(?:^|[;\s])opacity\s*:\s*0(?:\.0+)?\s*(?:;|!|$)/i;
/** A hidden part longer than this may be a page that a script shows, not a hidden remark. */
const maxFadedChars = 1000;
const panelName =
  /accordion|collaps|tab-?(?:panel|pane|content)|faq|answer|expand|toggle-?content/i;

/** Matches any of these declarations from its start. */
function declarationPattern(...declarations: string[]): RegExp {
  return new RegExp(String.raw`(?:^|[;\s])(?:${declarations.join('|')})`, 'i');
}

/** Adds the ids of the elements that this control opens. */
function addControlledIds({ name, attribs }: Element, ids: Set<string>): void {
  const controls = attribs['aria-controls'];
  if (controls !== undefined) for (const id of controls.split(/\s+/)) ids.add(id);
  const target = attribs['data-target'] ?? attribs['data-bs-target'];
  if (target?.startsWith('#')) ids.add(target.slice(1));
  if (name === 'a' && attribs.href?.startsWith('#')) ids.add(attribs.href.slice(1));
}

const colour = /(?:^|[;\s])(background-)?(?:color|background)\s*:\s*([^;!]+)/gi;

/** Text in its background colour, or transparent. Text clipped to a background image is neither. */
function hasInvisibleColour(style: string): boolean {
  if (!/colo/i.test(style) || /background-clip/i.test(style)) return false;
  let textColour = '';
  let background = '';
  for (const [whole, isGround, value] of style.matchAll(colour)) {
    const plain = value!.toLowerCase().replace(/\s+/g, '');
    if (isGround !== undefined || /background/i.test(whole)) background = plain;
    else textColour = plain;
  }
  return (
    textColour === 'transparent' ||
    /^rgba\(.*,0(?:\.0+)?\)$/.test(textColour) ||
    (textColour !== '' && textColour === background)
  );
}

const maxStyleChars = 200_000;
const rule = /([^{}]+)\{([^{}]*)\}/g;
const hidingBody = declarationPattern(...notShown, noSize, farAway);
const showingBody = declarationPattern(
  String.raw`display\s*:\s*(?!none)[a-z]`,
  String.raw`visibility\s*:\s*visible`,
);

function hidingRules(styles: readonly Element[]): HidingRules {
  const rules = new HidingRules();
  for (const style of styles) {
    // As with `@media`: what a condition hides is hidden only sometimes.
    if (!/^\s*(?:(?:all|screen)\s*)?$/i.test(style.attribs.media ?? '')) continue;
    const css = rawText(style).slice(0, maxStyleChars);
    if (!/none|hidden|collapse|font-size|indent|left|top/.test(css)) continue;
    for (const [, selectors, body] of withoutAtRules(css).matchAll(rule)) {
      const isHiding = hides(body!);
      if (!isHiding && !showingBody.test(body!)) continue;
      for (const selector of selectors!.split(',')) rules.add(selector, isHiding);
    }
  }
  return rules;
}

/** A later `display` in the same rule replaces an earlier one. */
function hides(body: string): boolean {
  const displays = [...body.matchAll(/(?<![\w-])display\s*:\s*([a-z-]+)/gi)];
  const isShown = displays.length > 1 && displays.at(-1)![1]!.toLowerCase() !== 'none';
  return hidingBody.test(isShown ? body.replaceAll(/display\s*:\s*none/gi, '') : body);
}

/** Removes `@media … { … }` and similar rules, because what they hide is hidden only sometimes. */
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

/** Counts text characters, except scripts and similar elements. */
function countTextChars(root: AnyNode): number {
  let chars = 0;
  walk(root, (node) => {
    if (isText(node)) chars += node.data.trim().length;
    else if (isElement(node) && (nonTextTags.has(node.name) || node.name === 'template'))
      return false;
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

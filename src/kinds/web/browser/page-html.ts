// Serializes the rendered page as HTML: includes open shadow roots, and marks invisible elements as `hidden`, because the
// style sheets are not available when the HTML is read.
import type { Locator, Page } from 'playwright-core';

/** Runs in the page, on the whole document or on one element. */
const serializer = `(part) => {
  const root = part ?? document.documentElement;
  if (!root.getHTML) return root.outerHTML;
  const shadows = [];
  const marked = [];
  const isClear = (colour) => /^rgba\\(.*, 0\\)$|^transparent$/.test(colour);
  const hasPicture = (element) => {
    for (let at = element; at; at = at.parentElement)
      if (getComputedStyle(at).backgroundImage !== 'none') return true;
    return false;
  };
  const isUnseen = (element) => {
    const style = getComputedStyle(element);
    if (!element.checkVisibility({ visibilityProperty: true })) return style.display !== 'contents';
    if (parseFloat(style.fontSize) < 2) return true;
    if (style.textShadow === 'none') {
      if (isClear(style.color) && !hasPicture(element)) return true;
      if (style.color === style.backgroundColor) return style.backgroundImage === 'none';
    }
    const box = element.getBoundingClientRect();
    if (box.right + scrollX < -900 || box.bottom + scrollY < -900) return true;
    return box.width <= 1 && box.height <= 1 && style.overflow === 'hidden';
  };
  const look = (node) => {
    let seen = 0;
    for (const element of node.querySelectorAll('*')) {
      if (++seen > 50000) return;
      if (element.shadowRoot) {
        shadows.push(element.shadowRoot);
        look(element.shadowRoot);
      }
      const says = [...element.childNodes].some((child) => child.nodeType === 3 && child.data.trim() !== '');
      if (!says || element.hidden || /^(SCRIPT|STYLE|NOSCRIPT|TEMPLATE|TITLE|OPTION)$/.test(element.tagName)) continue;
      if (element instanceof HTMLElement && isUnseen(element)) marked.push(element);
    }
  };
  if (root.shadowRoot) shadows.push(root.shadowRoot);
  look(root);
  try {
    for (const element of marked) element.setAttribute('hidden', '');
    const open = root.cloneNode(false).outerHTML;
    const inner = root.getHTML({ shadowRoots: shadows });
    return open.replace(/(<\\/[^<>]*>)?$/, '') + inner + '</' + root.localName + '>';
  } finally {
    for (const element of marked) element.removeAttribute('hidden');
  }
}`;

/** Playwright passes the element only to functions, and sends a function's text to the page. */
const serialize = Object.assign((_part: unknown): string => '', { toString: () => serializer });

export async function pageHtml(page: Page): Promise<string> {
  return `<!doctype html>${await readAfterNavigation(page, () => page.evaluate(serialize, undefined))}`;
}

export async function partHtml(part: Locator): Promise<string> {
  return readAfterNavigation(part.page(), () => part.evaluate(serialize));
}

const maxNavigations = 5;

/** Reads again if the page navigates while it is being read. */
async function readAfterNavigation<T>(page: Page, read: () => Promise<T>): Promise<T> {
  for (let navigations = 0; ; navigations++) {
    try {
      return await read();
    } catch (error) {
      if (
        navigations === maxNavigations ||
        !/context was destroyed/i.test((error as Error).message)
      )
        throw error;
      await page.waitForLoadState('domcontentloaded').catch(() => {});
    }
  }
}

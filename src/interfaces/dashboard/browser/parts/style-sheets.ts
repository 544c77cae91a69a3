// The terminal library writes rules into <style> elements, which the content policy forbids. While it opens, it gets hidden
// elements instead that pass their text to constructed style sheets, which the policy allows.
export function withSheets(run: () => void): void {
  const { createElement } = document;
  document.createElement = function create(
    this: Document,
    name: string,
    options?: ElementCreationOptions,
  ) {
    const isStyle = name.toLowerCase() === 'style';
    const element = createElement.call(this, isStyle ? 'span' : name, options);
    if (isStyle) redirect(element);
    return element;
  };
  try {
    run();
  } finally {
    document.createElement = createElement;
  }
}

function redirect(element: HTMLElement): void {
  const sheet = new CSSStyleSheet();
  element.hidden = true;
  document.adoptedStyleSheets.push(sheet);
  let text = '';
  Object.defineProperty(element, 'textContent', {
    get: () => text,
    set: (css: string) => {
      text = css;
      sheet.replaceSync(css);
    },
  });
  const { remove } = element;
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
    remove.call(element);
  };
}

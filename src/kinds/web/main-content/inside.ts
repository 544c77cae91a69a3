// Describes the ancestors of a block as bits: by element, role and microdata.
import { byName } from '../../../runtime/by-name.ts';
import type { Element } from '../read/dom.ts';

export const Inside = {
  nav: 1,
  header: 2,
  footer: 4,
  aside: 8,
  main: 16,
  article: 32,
  form: 64,
  list: 128,
  table: 256,
  section: 512,
  figure: 1024,
  link: 2048,
  button: 4096,
  quote: 8192,
  pre: 16384,
  item: 32768,
  dialog: 65536,
  definition: 131072,
  body: 262144,
  tab: 524288,
  label: 1048576,
} as const;

const insideByTag: Record<string, number> = byName({
  nav: Inside.nav,
  menu: Inside.nav,
  header: Inside.header,
  footer: Inside.footer,
  aside: Inside.aside,
  main: Inside.main,
  article: Inside.article,
  form: Inside.form,
  ul: Inside.list,
  ol: Inside.list,
  table: Inside.table,
  section: Inside.section,
  figure: Inside.figure,
  a: Inside.link,
  button: Inside.button,
  blockquote: Inside.quote,
  pre: Inside.pre,
  code: Inside.pre,
  dialog: Inside.dialog,
  dl: Inside.definition,
  label: Inside.label,
});

const insideByRole: Record<string, number> = byName({
  navigation: Inside.nav,
  menu: Inside.nav,
  menubar: Inside.nav,
  banner: Inside.header,
  contentinfo: Inside.footer,
  complementary: Inside.aside,
  main: Inside.main,
  article: Inside.article,
  search: Inside.form,
  dialog: Inside.dialog,
  alertdialog: Inside.dialog,
  button: Inside.button,
  tab: Inside.button,
  tabpanel: Inside.tab,
});

export function insideOf({ name, attribs }: Element): number {
  let inside = insideByTag[name] ?? 0;
  if (attribs.role !== undefined) inside |= insideByRole[attribs.role] ?? 0;
  if (attribs.itemprop !== undefined) {
    inside |= /articleBody|description|text|reviewBody|recipe|step/i.test(attribs.itemprop)
      ? Inside.body
      : Inside.item;
  }
  return inside;
}

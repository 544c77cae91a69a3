// Markdown as it is read: without the targets of links and the marks of headings. Bounded, whatever stands in brackets.
const link = /!?\[([^\][\n]{0,300})\]\([^()\s]{0,2000}\)/g;
const heading = /^#{1,6} +/gm;

export const plainOf = (markdown: string): string =>
  markdown.replaceAll(link, '$1').replaceAll(heading, '');

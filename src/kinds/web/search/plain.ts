// Converts Markdown to readable text: removes link targets and heading marks. The patterns are bounded, so
// the cost stays low for any input.
const link = /!?\[([^\][\n]{0,300})\]\([^()\s]{0,2000}\)/g;
const heading = /^#{1,6} +/gm;

export const toPlainText = (markdown: string): string =>
  markdown.replaceAll(link, '$1').replaceAll(heading, '');

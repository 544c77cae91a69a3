// Which rows are one: http and https, with and without www, the last slash or a fragment are the same result.
export function sameUrl(url: string): string {
  return url
    .replace(/^https?:\/\/(?:www\.)?/i, '')
    .replace(/#.*$/, '')
    .replace(/\/$/, '');
}

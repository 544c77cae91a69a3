// The documentation sites that `docs.ts` measures: their Debian paths, and the element that each
// site itself uses for the main part. The reader under test knows none of these selectors.

export interface DocsSite {
  name: string;
  /** Debian package with the pages. */
  package: string;
  root: string;
  /** CSS selectors. The first that matches is the page's main container. */
  containers: readonly string[];
  /** Parts of the container that are not page text: marks, buttons, page navigation. */
  without: readonly string[];
}

const sphinx = {
  containers: ['[role=main]', '.body'],
  without: ['a.headerlink', '[role=navigation]:not(.contents)', '.linenos'],
};

export const docsSites: readonly DocsSite[] = [
  { name: 'python', package: 'python3-doc', root: '/usr/share/doc/python3.11/html', ...sphinx },
  {
    name: 'postgres',
    package: 'postgresql-doc-15',
    root: '/usr/share/doc/postgresql-doc-15/html',
    containers: ['body'],
    without: ['.navheader', '.navfooter', 'a.id_link', 'footer'],
  },
  { name: 'linux', package: 'linux-doc', root: '/usr/share/doc/linux-doc-6.1/html', ...sphinx },
  {
    name: 'rust',
    package: 'rust-doc',
    root: '/usr/share/doc/rust-doc/html',
    containers: ['#main-content', 'main', 'body'],
    without: [
      'nav',
      'footer',
      'a.test-arrow',
      '.out-of-band',
      'a.anchor',
      'a.doc-anchor',
      '#settings-menu',
      'button',
      '.line-numbers',
      '#source-sidebar',
      'noscript',
    ],
  },
  {
    name: 'git',
    package: 'git-doc',
    root: '/usr/share/doc/git-doc',
    containers: ['body'],
    without: ['#footer', 'noscript'],
  },
];

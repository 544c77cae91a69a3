// uPlot formats numbers in the language of the browser as soon as it is loaded. A browser that was started without a locale
// (LANG=C) reports `en-US@posix`, which Intl rejects: report a valid language instead. Import this before uPlot.
try {
  Intl.getCanonicalLocales(navigator.language);
} catch {
  Object.defineProperty(navigator, 'language', { value: 'en-US' });
}

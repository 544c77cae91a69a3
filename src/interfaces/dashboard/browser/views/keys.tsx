export function KeysView(_: { id: string | undefined }) {
  return <section class="view" />;
}

export function StartView(_: { id: string | undefined }) {
  return <section class="view" />;
}

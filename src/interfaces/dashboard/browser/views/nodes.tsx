export function NodesView(_: { id: string | undefined }) {
  return <section class="view" />;
}

export function WebhooksView(_: { id: string | undefined }) {
  return <section class="view" />;
}

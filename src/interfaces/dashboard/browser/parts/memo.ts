// Renders a component again only when one of its properties changed.
import { Component, h, type ComponentType, type VNode } from 'preact';

export function memo<P extends object>(inner: (props: P) => VNode): ComponentType<P> {
  return class Memo extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      const { props } = this;
      return (Object.keys(next) as (keyof P)[]).some((key) => next[key] !== (props as P)[key]);
    }

    override render(): VNode {
      return h(inner, this.props as P) as VNode;
    }
  };
}

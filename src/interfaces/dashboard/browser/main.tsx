// The browser program of the dashboard.
import { render } from 'preact';
import { start } from './router.ts';
import { Shell } from './shell.tsx';

start();
render(<Shell />, document.querySelector('#app')!);

/** Drawing of the values that roles read from each other, in the syntax of Mermaid. */

import type { ValueFlow } from './compile-template.ts';

/**
 * Returns a flow chart. Lines of values that guests write are solid. Lines of values that Heat
 * determines are dotted.
 */
export function drawFlows(roles: readonly string[], flows: readonly ValueFlow[]): string {
  const nodeOf = new Map(roles.map((role, index) => [role, `r${index}`]));
  const lines = [
    'flowchart LR',
    ...Array.from(nodeOf, ([role, node]) => `  ${node}[${quote(role)}]`),
    ...flows.map(({ key, from, to, by, secret }) => {
      const label = quote(`${key}${secret ? ' (secret)' : ''}`);
      const arrow = by === 'heat' ? '-.->' : '-->';
      return `  ${nodeOf.get(from) ?? quote(from)} ${arrow}|${label}| ${nodeOf.get(to) ?? quote(to)}`;
    }),
  ];
  return `${lines.join('\n')}\n`;
}

/** Returns quoted text. In Mermaid, character entities are written without an ampersand. */
function quote(text: string): string {
  return `"${text.replaceAll('#', '#35;').replaceAll('"', '#quot;')}"`;
}

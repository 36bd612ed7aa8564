/** Salt's outputter for minions that did not answer [salt output/no_return.py]. */
import { type Colors, noColors } from './colors.ts';
import { escapeLine, escapeName } from './escape.ts';

/** The minion's id and, below it, why there is no return. */
export function formatNoReturn(minion: string, reason: string, colors: Colors = noColors): string {
  const lines = reason
    .split('\n')
    .map((line) => `${colors.red}    ${escapeLine(line)}${colors.end}`);
  return [`${colors.cyan}${escapeName(minion)}${colors.end}:`, ...lines].join('\n');
}

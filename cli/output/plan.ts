import type { PlannedMinion, TargetPlan } from '../../master/index.ts';
import { escapeName } from './escape.ts';

/** A line for each minion with the reason why it is there. */
export function formatPlan({ minions }: TargetPlan): string {
  return minions.map((minion) => `${escapeName(minion.id)}: ${reasonOf(minion)}`).join('\n');
}

/** Why an expression means nobody. */
export function brokenTarget(problem: string): string {
  return `saltbridge: the target is broken: ${escapeName(problem)}`;
}

function reasonOf(minion: PlannedMinion): string {
  switch (minion.reason) {
    case 'matched':
      return `matched by ${minion.by.map(escapeName).join(', ')}`;
    case 'facts-unknown':
      return 'facts unknown';
    case 'missing':
      return 'missing, no accepted key';
  }
}

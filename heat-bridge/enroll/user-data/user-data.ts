/** User-data that makes a machine a minion. */
import { cloudConfigPart } from './cloud-config.ts';
import type { MachinePlan, UserDataPart } from './machine.ts';
import { multipart } from './multipart.ts';
import { powerShellPart } from './power-shell.ts';
import { shellPart } from './shell-script.ts';

/**
 * What reads user-data on the machine: cloud-init with its module `salt_minion`; anything that runs
 * a shell script; cloudbase-init.
 */
export type UserDataFormat = 'cloud-init' | 'shell' | 'cloudbase-init';

/**
 * The text of user-data.
 * @param beside what the service passes to the machine already, of whatever kind
 */
export function userData(format: UserDataFormat, plan: MachinePlan, beside?: string): string {
  const parts = partsOf(format, plan);
  const [first, ...others] = parts;
  const isOne = first !== undefined && others.length === 0 && beside === undefined;
  return isOne ? first.content : multipart(parts, beside);
}

function partsOf(format: UserDataFormat, plan: MachinePlan): readonly UserDataPart[] {
  switch (format) {
    case 'cloud-init':
      return [cloudConfigPart(plan), shellPart(plan, { configures: false })];
    case 'shell':
      return [shellPart(plan, { configures: true })];
    case 'cloudbase-init':
      return [powerShellPart(plan)];
  }
}

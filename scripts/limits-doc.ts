// Writes the tables of docs/limits.md from the tables of limits of the rooms. With --check it only
// compares them.
import { policyLimits } from '#acl/limits.ts';
import { clientLimits } from '#client/limits.ts';
import { clusterLimits } from '#cluster/limits.ts';
import { configLimits } from '#config/limits.ts';
import { edgeLimits } from '#edge/limits.ts';
import { guestLimits } from '#guests/limits.ts';
import { bridgeLimits } from '#heat-bridge/limits.ts';
import { argumentLimits } from '#master/arguments/limits.ts';
import { auditLimits } from '#master/audit/limits.ts';
import { authLimits } from '#master/auth/limits.ts';
import { rsaLimits } from '#master/auth/rsa-limits.ts';
import { eventLimits } from '#master/events/limits.ts';
import { functionLimits } from '#master/functions/limits.ts';
import { jobLimits } from '#master/jobs/limits.ts';
import { requestLimits } from '#master/requests/limits.ts';
import { rpcLimits } from '#master/rpc/limits.ts';
import { userLimits } from '#master/users/limits.ts';
import { transportLimits } from '#minion-protocol/transport/limits.ts';
import type { Limit } from '#runtime';
import { httpLimits } from '#runtime/http-limits.ts';
import { jsonLimits } from '#runtime/json-limits.ts';
import type { LimitTable } from '#runtime/limits.ts';
import { saltLimits } from '#salt/limits.ts';
import { apiLimits } from '#salt-api/limits.ts';
import { storeLimits } from '#store/limits.ts';
import { tableOf, updatePage } from './generated-page.ts';

/** Tables of limits, by the path of the file that defines the table. */
export const limitTables: Readonly<Record<string, LimitTable>> = {
  'acl/limits.ts': policyLimits,
  'client/limits.ts': clientLimits,
  'cluster/limits.ts': clusterLimits,
  'config/limits.ts': configLimits,
  'edge/limits.ts': edgeLimits,
  'guests/limits.ts': guestLimits,
  'heat-bridge/limits.ts': bridgeLimits,
  'master/arguments/limits.ts': argumentLimits,
  'master/audit/limits.ts': auditLimits,
  'master/auth/limits.ts': authLimits,
  'master/auth/rsa-limits.ts': rsaLimits,
  'master/events/limits.ts': eventLimits,
  'master/functions/limits.ts': functionLimits,
  'master/jobs/limits.ts': jobLimits,
  'master/requests/limits.ts': requestLimits,
  'master/rpc/limits.ts': rpcLimits,
  'master/users/limits.ts': userLimits,
  'minion-protocol/transport/limits.ts': transportLimits,
  'runtime/http-limits.ts': httpLimits,
  'runtime/json-limits.ts': jsonLimits,
  'salt-api/limits.ts': apiLimits,
  'salt/limits.ts': saltLimits,
  'store/limits.ts': storeLimits,
};

const start = '<!-- limits -->\n';
const head = ['limit', 'of', 'owner', 'amount', 'option', 'effect', 'code'];
const counted = new Intl.NumberFormat('en');

/**
 * Returns the text for the column `amount`, for example `100 of one owner`. The text states all
 * maximum numbers and rates of a limit.
 */
function amountsOf({ row, perOwner, total, reserved, timesFree, waiting, rate }: Limit): string {
  const parts: string[] = [];
  if (row.amounts !== undefined) parts.push(row.amounts);
  if (perOwner !== undefined) parts.push(`${counted.format(perOwner)} of one owner`);
  if (total !== undefined) parts.push(`${counted.format(total)} in all`);
  if (reserved !== undefined && row.amounts === undefined) {
    parts.push(`${counted.format(reserved)} reserved for owners without any`);
  }
  if (timesFree !== undefined) {
    const times = timesFree === 1 ? '' : `${counted.format(timesFree)} times `;
    parts.push(`of one owner at most ${times}as much as is free`);
  }
  if (waiting !== undefined) {
    const { perOwner: own, total: all } = waiting;
    parts.push(`${counted.format(own)} of one owner and ${counted.format(all)} in all may wait`);
  }
  if (rate !== undefined) {
    const { perSecond, burst } = rate;
    const often =
      perSecond >= 0.5 ? `${counted.format(perSecond)}/s` : `${counted.format(perSecond * 3600)}/h`;
    parts.push(`${often}, ${counted.format(burst)} at once`);
  }
  return parts.join('; ');
}

/** Returns the cells of the table row that describes a limit. */
function rowOf(limit: Limit): readonly string[] {
  const { name, unit, owner, effect, row } = limit;
  const option = row.option === undefined ? '' : `\`${row.option}\``;
  const code = row.code === undefined ? '' : `\`${row.code}\``;
  return [`\`${name}\``, unit, owner, amountsOf(limit), option, effect, code];
}

/** Returns the page with a table of all limits. */
export function withLimits(page: string): string {
  const limits = Object.values(limitTables).flatMap((table) => Object.values(table));
  const rows = limits.map(rowOf).sort(([a = ''], [b = '']) => (a < b ? -1 : 1));
  const [text = ''] = page.split(start);
  return `${text}${start}\n${tableOf(head, rows)}`;
}

if (import.meta.main || process.argv[1]?.endsWith('docs.js')) {
  updatePage('docs/limits.md', withLimits);
}

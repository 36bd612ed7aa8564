/** What `salt` says of minions that have not answered. */
import type { MinionReturn } from './returns.ts';

/** Why there is no return [salt client/__init__.py get_cli_event_returns]. */
export function noResponse(minion: string, jid: string): MinionReturn {
  const value = `Minion did not return. [No response]\n${lookUpLater(jid)}`;
  return { minion, value, isFailure: true, out: 'no_return' };
}

/** The same of one that had not come back from a restart of the master. */
export function stillReconnecting(minion: string, jid: string): MinionReturn {
  const value = `Minion did not return. [Reconnecting after the restart of the master]\n${lookUpLater(jid)}`;
  return { minion, value, isFailure: true, out: 'no_return' };
}

/** What Salt says when its person leaves before the minions are done [salt scripts.py]. */
export function leavingEarly(jid: string): string {
  return `\nExiting gracefully on Ctrl-c\nThis job's jid is: ${jid}\n${lookUpLater(jid)}`;
}

function lookUpLater(jid: string): string {
  return [
    'The minions may not have all finished running and any remaining minions will return upon ' +
      'completion. To look up the return data for this job later, run the following command:',
    '',
    `salt-run jobs.lookup_jid ${jid}`,
  ].join('\n');
}

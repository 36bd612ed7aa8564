/**
 * Opens the service for minions that run functions on other minions (`peer`) or on the master
 * (`peer_run`).
 */

import { ArgumentReader, type ExtensionHost, masterServices, type OpenExtension } from '#master';
import { PeerPublisher } from './peer-publisher.ts';
import { peerRequests } from './peer-requests.ts';
import { PeerRunner } from './peer-runner.ts';

/** Maximum number of values in the arguments of one function. */
const maxArgumentValues = 100_000;

export async function openPeers(host: ExtensionHost): Promise<OpenExtension> {
  const config = host.use(masterServices.config);
  const context = host.use(masterServices.context);
  const { gate } = host.use(masterServices.users);
  const jobs = host.use(masterServices.jobs);
  const { cache, dispatcher, targets, minions: facts } = jobs;
  const { runners } = host.use(masterServices.functions);
  const { minionRunners } = host.use(masterServices.contributions);
  const { counters, closers } = context;
  const reader = closers.add(new ArgumentReader(maxArgumentValues), (it) => it.close());
  const common = {
    gate,
    counters,
    reader,
    log: context.log.child({ component: 'requests' }),
  };
  const publisher = new PeerPublisher({ ...common, cache, dispatcher, targets, facts, config });
  const runner = new PeerRunner({ ...common, jobs, runners, minionRunners });
  return { requests: peerRequests({ publisher, runner, counters }) };
}

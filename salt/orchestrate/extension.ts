/**
 * Opens the orchestrator and the `state` runner. The orchestrator runs SLS files of the file
 * server.
 */

import { type ExtensionHost, masterServices, type OpenExtension } from '#master';
import { fileServerOf, pillarSourceKey } from '../services.ts';
import { openOrchestrator } from './open-orchestrator.ts';
import { stateRunner } from './state-runner.ts';

export async function openOrchestration(host: ExtensionHost): Promise<OpenExtension> {
  const context = host.use(masterServices.context);
  const events = host.use(masterServices.events);
  const { runners, wheel } = host.use(masterServices.functions);
  const orchestrator = openOrchestrator({
    config: host.use(masterServices.config),
    context,
    fileServer: fileServerOf(host),
    pillar: host.find(pillarSourceKey),
    acting: {
      jobs: host.use(masterServices.jobs).api,
      runners,
      wheel,
      bus: events.bus,
      events: events.api,
      now: context.now,
    },
    log: context.log.child({ component: 'runners' }),
  });
  return { runners: stateRunner({ orchestrator }), start: () => orchestrator.resumeAll() };
}

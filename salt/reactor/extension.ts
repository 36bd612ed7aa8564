/** Extension that runs reactions to events, including those that the option `reactor` defines. */

import { type ExtensionHost, masterServices, type OpenExtension } from '#master';
import { fileServerOf } from '../services.ts';
import { createReactionCalls, createReactor, createReactorSls } from './reactions.ts';
import { ReactorEntries, reactorRunner } from './reactor-runner.ts';

export async function openReactor(host: ExtensionHost): Promise<OpenExtension> {
  const config = host.use(masterServices.config);
  const context = host.use(masterServices.context);
  const jobs = host.use(masterServices.jobs);
  const users = host.use(masterServices.users);
  const functions = host.use(masterServices.functions);
  const contributions = host.use(masterServices.contributions);
  const reactors = new ReactorEntries(config);
  const sls = await createReactorSls({
    config,
    context,
    fileServer: fileServerOf(host),
    functions,
  });
  const reactor = await createReactor({
    config,
    context,
    events: host.use(masterServices.events),
    jobs,
    calls: createReactionCalls({
      jobs,
      users,
      functions,
      commands: () => contributions.commands,
    }),
    sls,
    reactors,
  });
  host.provide(masterServices.reactions, reactor.api);
  return {
    intake: reactor.intake,
    runners: reactorRunner(reactors),
    start: () => reactor.start(),
  };
}

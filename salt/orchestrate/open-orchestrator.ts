/** Opens the orchestrator of a master from its configuration. */

import type { Logger } from 'pino';
import type { LiveConfig } from '#config';
import type { MasterContext } from '#master';
import type { FileServer } from '../file-trees/file-server.ts';
import { servedFiles } from '../file-trees/served-files.ts';
import { masterOptionsOf } from '../render/master-options.ts';
import type { PillarSource } from '../render/pillar-source.ts';
import { PillarSources } from '../render/pillar-sources.ts';
import { ParsedFileCache, Renderer, renderMs } from '../render/renderer.ts';
import { OrchestrationJournal } from './journal.ts';
import type { OrchestrationDeps } from './orchestration-context.ts';
import { Orchestrator } from './orchestrator.ts';

export interface OrchestratorDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly fileServer: FileServer;
  /** Source of pillar. If `undefined`, minions and the master have no pillar. */
  readonly pillar: PillarSource | undefined;
  /** Interfaces of the master that states use. */
  readonly acting: OrchestrationDeps;
  readonly log: Logger;
}

const noPillar: PillarSource = { provide: async () => ({ pillar: {}, proven: {} }) };

export function openOrchestrator({
  config,
  context,
  fileServer,
  pillar = noPillar,
  acting,
  log,
}: OrchestratorDeps): Orchestrator {
  const { fixed } = config;
  const { closers, closing, now, store, nextJid, cluster, duties } = context;
  const whitespace = {
    trimBlocks: fixed.jinjaTrimBlocks,
    lstripBlocks: fixed.jinjaLstripBlocks,
  };
  const rendering = closers.add(new Renderer(), (it) => it.close());
  const data = new ParsedFileCache(rendering);
  const sources = new PillarSources({ backend: servedFiles(fileServer), ...whitespace });
  const orchestrator = new Orchestrator({
    acting,
    pillar,
    closing,
    log,
    journal:
      cluster && duties && new OrchestrationJournal({ store, nextJid, cluster, duties, log }),
    masterId: fixed.id,
    sources,
    envs: () => fileServer.envs(),
    limits: fixed.limits,
    rules: () => ({
      ...whitespace,
      raisesOnMissing: fixed.pillarRaiseOnMissing,
      mergeLists: fixed.pillarMergeLists,
      files: sources,
      nodegroups: config.current.nodegroups,
      masterOptions: masterOptionsOf(config),
      renderer: fixed.renderer,
      limits: { steps: fixed.limits.pillarSteps, milliseconds: renderMs },
      rendering,
      data,
      now,
    }),
  });
  return closers.add(orchestrator, (it) => it.close());
}

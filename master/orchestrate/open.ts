/** Orchestrations, from the parts of a master. */
import type { Logger } from 'pino';
import type { MasterConfig } from '../config/options.ts';
import type { FileServer } from '../fileserver/file-server.ts';
import { servedFiles } from '../fileserver/served-files.ts';
import type { PillarSource } from '../pillar/answer.ts';
import { renderMs } from '../pillar/own-pillar.ts';
import { PillarSources } from '../pillar/sources.ts';
import { KeptData } from '../rendering/kept-data.ts';
import type { Renderer } from '../rendering/renderer.ts';
import { Orchestrator, type OrchestratorOptions } from './orchestrator.ts';

/** What they are made from. */
export interface OrchestrationSurroundings extends Pick<OrchestratorOptions, 'parts' | 'closing'> {
  readonly config: MasterConfig;
  readonly fileServer: FileServer;
  readonly pillar: PillarSource;
  readonly rendering: Renderer;
  readonly now: () => number;
  readonly log: Logger;
}

export function openOrchestrator({
  config,
  fileServer,
  rendering,
  now,
  ...parts
}: OrchestrationSurroundings): Orchestrator {
  const whitespace = {
    trimBlocks: config.jinjaTrimBlocks,
    lstripBlocks: config.jinjaLstripBlocks,
  };
  const data = new KeptData(rendering);
  return new Orchestrator({
    ...parts,
    masterId: config.id,
    sources: new PillarSources({ backend: servedFiles(fileServer), ...whitespace }),
    envs: () => fileServer.envs(),
    limits: () => config.limits,
    rules: () => ({
      ...whitespace,
      raisesOnMissing: config.pillarRaiseOnMissing,
      nodegroups: config.nodegroups,
      renderer: config.renderer,
      limits: { steps: config.limits.pillarSteps, milliseconds: renderMs },
      rendering,
      data,
      now,
    }),
  });
}

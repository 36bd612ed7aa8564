/** Code of this room that runs without a master. It is loaded when a program uses it. */

import type { loadAgentOptions } from './metadata-agent/agent-options.ts';
import type { startMetadataAgent } from './metadata-agent/metadata-agent.ts';
import type { startRelay } from './metadata-agent/relay.ts';
import type { compileTemplate } from './templates/compile-template.ts';
import type { parsePreparedRoles, spaceOf } from './templates/prepared-roles.ts';
import type { drawFlows } from './templates/template-picture.ts';
import type { drawFlowsAsSvg } from './templates/template-svg.ts';

/** Compiles Heat templates and draws their data flows. */
export interface HeatTemplates {
  readonly compileTemplate: typeof compileTemplate;
  readonly parsePreparedRoles: typeof parsePreparedRoles;
  readonly spaceOf: typeof spaceOf;
  readonly drawFlows: typeof drawFlows;
  readonly drawFlowsAsSvg: typeof drawFlowsAsSvg;
}

export async function loadHeatTemplates(): Promise<HeatTemplates> {
  return {
    ...(await import('./templates/compile-template.ts')),
    ...(await import('./templates/prepared-roles.ts')),
    ...(await import('./templates/template-picture.ts')),
    ...(await import('./templates/template-svg.ts')),
  };
}

/** Runs the metadata agent of a network node, and its relay for minions. */
export interface MetadataAgentProgram {
  readonly loadAgentOptions: typeof loadAgentOptions;
  readonly startMetadataAgent: typeof startMetadataAgent;
  readonly startRelay: typeof startRelay;
}

export async function loadMetadataAgent(): Promise<MetadataAgentProgram> {
  return {
    ...(await import('./metadata-agent/agent-options.ts')),
    ...(await import('./metadata-agent/metadata-agent.ts')),
    ...(await import('./metadata-agent/relay.ts')),
  };
}

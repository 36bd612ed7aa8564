/** Code of `guests/` that programs run without a master. It is loaded on demand. */

/** Functions that compile Heat templates and draw their data flows. */
export type HeatTemplates = Awaited<ReturnType<typeof loadHeatTemplates>>;

export async function loadHeatTemplates() {
  return {
    ...(await import('./templates/compile-template.ts')),
    ...(await import('./templates/prepared-roles.ts')),
    ...(await import('./templates/template-picture.ts')),
    ...(await import('./templates/template-svg.ts')),
  };
}

/** Loads the metadata agent of a network node, and the relay for minions. */
export async function loadMetadataAgent() {
  return {
    ...(await import('./metadata-agent/agent-options.ts')),
    ...(await import('./metadata-agent/metadata-agent.ts')),
    ...(await import('./metadata-agent/relay.ts')),
  };
}

/** Code of this room that runs without a master. It is loaded when a program uses it. */

/** Compiles Heat templates and draws their data flows. */
export async function heatTemplates() {
  const [compile, roles, picture, svg] = await Promise.all([
    import('./templates/compile-template.ts'),
    import('./templates/prepared-roles.ts'),
    import('./templates/template-picture.ts'),
    import('./templates/template-svg.ts'),
  ]);
  const { compileTemplate } = compile;
  const { parsePreparedRoles, spaceOf } = roles;
  return {
    compileTemplate,
    parsePreparedRoles,
    spaceOf,
    drawFlows: picture.drawFlows,
    drawFlowsAsSvg: svg.drawFlowsAsSvg,
  };
}

/** Runs the metadata agent of a network node, and its relay for minions. */
export async function metadataAgent() {
  const [options, agent, relay] = await Promise.all([
    import('./metadata-agent/agent-options.ts'),
    import('./metadata-agent/metadata-agent.ts'),
    import('./metadata-agent/relay.ts'),
  ]);
  const { loadAgentOptions } = options;
  const { startMetadataAgent } = agent;
  return { loadAgentOptions, startMetadataAgent, startRelay: relay.startRelay };
}

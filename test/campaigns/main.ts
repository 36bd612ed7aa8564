/**
 * `npm run campaign -- NAME`: long runs with random input that can be replayed.
 * `fuzz-http [bodies [seed [first]]]` sends bodies to every route of the HTTP API.
 * `processes [ends [seed [jobs [signals]]]]` ends the holder of a master that five processes share.
 * `log [faults [seed]]` kills, stops and cuts off members of a cluster's store and its NATS servers.
 * `cluster [seconds [seed [kind…]]]` does so with masters of a cluster, callers and minions.
 * `hostile [seed [minutes]]` sends hostile values to every request type, route, method and command.
 * `hostile-tests [times [seed]]` runs the tests of hostile input many times longer, by another seed.
 * `properties [times [seed]]` tries the properties of all tests many times as often, by another seed.
 * `gitfs` fetches 2,000 files in 50 branches, where `npm test` has a tenth of both.
 * `differential [seed [cases [first]]]` compares answers with those of real Salts (SALT_PYTHON).
 * `edge [seed [sites]]` measures a centre and sites with 40 simulated nodes each.
 * `edge-links [seed [tries [delays [figures]]]]` measures a site behind a slow, lossy link that is cut.
 * `packages` builds the Debian package, the tarball and the container image, installs and runs them.
 */
const [what = '', ...parameters] = process.argv.slice(2);

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Functions by name. Each returns the exit code of the process. */
const campaigns: Readonly<Record<string, () => Promise<number>>> = {
  'fuzz-http': async () => {
    const { runHttpFuzz } = await import('./fuzz-http.ts');
    return runHttpFuzz(parameters, print);
  },
  processes: async () => {
    const { runProcesses } = await import('./processes.ts');
    return runProcesses(parameters, print);
  },
  log: async () => {
    const { runLog } = await import('./log.ts');
    return runLog(parameters, print);
  },
  cluster: async () => {
    const { runCluster } = await import('./cluster.ts');
    return runCluster(parameters, print);
  },
  hostile: async () => {
    const { runHostile } = await import('./hostile.ts');
    return runHostile(parameters, print);
  },
  'hostile-tests': async () => {
    const { runHostileTests } = await import('./long-tests.ts');
    return runHostileTests(parameters, print);
  },
  properties: async () => {
    const { runProperties } = await import('./long-tests.ts');
    return runProperties(parameters, print);
  },
  gitfs: async () => {
    const { runGitfs } = await import('./long-tests.ts');
    return runGitfs();
  },
  differential: async () => {
    const { runDifferential } = await import('./differential.ts');
    return runDifferential(parameters, print);
  },
  'edge-links': async () => {
    const { runEdgeLinks } = await import('./edge-links.ts');
    return runEdgeLinks(parameters, print);
  },
  edge: async () => {
    const { runEdge } = await import('./edge.ts');
    return runEdge(parameters, print);
  },
  packages: async () => {
    const { runPackages } = await import('./long-tests.ts');
    return runPackages();
  },
};

const campaign = Object.hasOwn(campaigns, what) ? campaigns[what] : undefined;
if (campaign === undefined) {
  print(`expected the name of a campaign: ${Object.keys(campaigns).join(', ')}`);
  process.exitCode = 2;
} else process.exitCode = await campaign();

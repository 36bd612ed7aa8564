/**
 * A program that starts a master and prints what the edge added to it. Arguments: a directory, and
 * sections of the configuration as JSON.
 */

import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';

const loaded: string[] = [];
registerHooks({
  load: (url, context, next) => {
    if (url.startsWith('file:')) loaded.push(fileURLToPath(url));
    return next(url, context);
  },
});

const [, , directory = '', sections = '{}'] = process.argv;
const { createMasterServer } = await import('#server');
const { masterServices } = await import('#master');
const { siteSection, sitesSection } = await import('./sections.ts');

interface Services {
  readonly methods: ReadonlyMap<string, unknown>;
  readonly routes: readonly { readonly prefix: string }[];
}

const given = JSON.parse(sections);
let services: Services | undefined;
const server = await createMasterServer({
  rootDir: directory,
  stateDir: `${directory}/state`,
  interface: '127.0.0.1',
  publishPort: 0,
  requestPort: 0,
  ...(given.site === undefined ? {} : { site: siteSection(given.site) }),
  ...(given.sites === undefined ? {} : { sites: sitesSection(given.sites) }),
  extensions: [
    {
      name: 'probe',
      open: async (host) => {
        const contributions: object = host.use(masterServices.contributions);
        // The collection of the master, which has the methods as well.
        services = contributions as Services;
        return {};
      },
    },
  ],
});
await server.start();
const root = fileURLToPath(new URL('../../edge/', import.meta.url));
const isOwn = (name: string): boolean => /^(?:edge|site)\./.test(name);
const report = {
  loaded: loaded.filter((it) => it.startsWith(root)).map((it) => it.slice(root.length)),
  methods: [...(services?.methods.keys() ?? [])].filter(isOwn),
  routes: (services?.routes ?? [])
    .map(({ prefix }) => prefix)
    .filter((prefix) => prefix.startsWith('/site')),
};
await server.close();
process.stdout.write(JSON.stringify(report));

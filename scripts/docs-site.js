// Builds the documentation site into dist/site/VERSION: `node scripts/docs-site.js`. Any web server
// can serve dist/site. Versions that dist/site already contains are not changed, and the navigation
// links to them. The build fails if a link is dead.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vitepress';
import description from '../package.json' with { type: 'json' };

const root = fileURLToPath(new URL('..', import.meta.url));
await build(path.join(root, 'docs'));
const { version } = description;
writeFileSync(
  path.join(root, 'dist/site/index.html'),
  `<!doctype html><meta http-equiv="refresh" content="0; url=${version}/"><a href="${version}/">saltbridge ${version}</a>\n`,
);

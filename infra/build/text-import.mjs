// Lets Node import .hbs files as text, as the bundler does: `node --import tsx --import ./infra/build/text-import.mjs`.

import { register } from 'node:module';

register('./text-loader.mjs', import.meta.url);
